// What a JSON Schema says about a place in a YAML text. The place is told by indentation: good enough to help
// with, and no second parser beside the gateway's, which decides what holds.

export type Schema = Record<string, unknown>;

export interface Help {
  path: string[];
  description: string;
  kind: string;
  preset: string | null;
  choices: string[];
  keys: { name: string; description: string; there: boolean }[];
  open: boolean; // whether they can be put in on lines of their own
  indent: number; // of keys that are put in here
  after: number; // line, from 0, behind which they go
}

const KEY = /^(\s*)((?:- +)*)(?:"([^"]+)"\s*|'([^']+)'\s*|([^\s#'"{[&*!|>%@][^:#]*)):(?=\s|$)/;
const COMMENT = /^\s*(#|$)/;

interface Line {
  indent: number;
  key: string;
  open: boolean; // nothing but a comment, a tag or an anchor is behind it: a block may follow
}

function lineAt(text: string): Line | null {
  const found = KEY.exec(text);
  if (found === null) return null;
  const key = found[3] ?? found[4] ?? (found[5] ?? "").trimEnd();
  return { indent: (found[1] ?? "").length + (found[2] ?? "").length, key, open: /^\s*([#&!]|$)/.test(text.slice(found[0].length)) };
}

/** Keys from the outermost to that of a line; of an empty line, to that of the block it stands in. */
export function pathAt(lines: string[], row: number, column: number): string[] {
  const here = lines[row] ?? "";
  const path: string[] = [];
  let limit: number;
  const own = COMMENT.test(here) ? null : lineAt(here);
  if (own !== null) {
    path.unshift(own.key);
    limit = own.indent;
  } else limit = COMMENT.test(here) ? Math.max(column, here.trim() === "" ? 0 : here.search(/\S/)) : here.search(/\S/);
  for (let at = row - 1; at >= 0 && limit > 0; at--) {
    const text = lines[at] ?? "";
    if (COMMENT.test(text)) continue;
    const line = lineAt(text);
    if (line === null || line.indent >= limit) continue;
    path.unshift(line.key);
    limit = line.indent;
  }
  return path;
}

const list = (value: unknown): Schema[] => (Array.isArray(value) ? (value as Schema[]) : []);
const record = (value: unknown): Schema | null => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : null);

/** What a schema may be: references followed, alternatives one by one. */
function options(root: Schema, schema: Schema, depth = 0): Schema[] {
  if (depth > 8) return [];
  const ref = schema["$ref"];
  if (typeof ref === "string") {
    const name = ref.replace("#/$defs/", "");
    const found = record(record(root["$defs"])?.[name]);
    return found === null ? [] : options(root, found, depth + 1);
  }
  const others = [...list(schema["anyOf"]), ...list(schema["oneOf"]), ...list(schema["allOf"])];
  return others.length > 0 ? others.flatMap((one) => options(root, one, depth + 1)) : [schema];
}

function member(root: Schema, schema: Schema, key: string): Schema | null {
  for (const option of options(root, schema)) {
    const inner = record(option["items"]);
    if (inner !== null) {
      const found = member(root, inner, key);
      if (found !== null) return found;
    }
    const own = record(record(option["properties"])?.[key]);
    if (own !== null) return own;
    const more = record(option["additionalProperties"]);
    if (more !== null) return more;
  }
  return null;
}

const first = (text: unknown): string => (typeof text === "string" ? text.split("\n\n")[0] ?? "" : "");

/** What a key is for, by its own description, else by its block's. */
const said = (root: Schema, schema: Schema): string => first(schema["description"]) || first(options(root, schema)[0]?.["description"]);

/** What may be said about the place of the cursor; null where the schema knows nothing of it. */
export function helpAt(root: Schema, lines: string[], row: number, column: number): Help | null {
  const path = pathAt(lines, row, column);
  let schema: Schema = root;
  for (const key of path) {
    const inner = member(root, schema, key);
    if (inner === null) return null;
    schema = inner;
  }
  const every = options(root, schema);
  const blocks = every.flatMap((option) => [option, ...(record(option["items"]) ? options(root, record(option["items"]) as Schema) : [])]);
  const known = blocks.flatMap((option) => Object.entries(record(option["properties"]) ?? {}));
  const own = COMMENT.test(lines[row] ?? "") ? null : lineAt(lines[row] ?? "");
  // where the keys of this block begin: the first line below that is further in, else two further
  const outer = path.length === 0 ? -1 : own !== null ? own.indent : -1;
  let indent = path.length === 0 ? 0 : own !== null ? own.indent + 2 : column;
  const there = new Set<string>();
  for (let at = own !== null ? row + 1 : firstOf(lines, row, path); at < lines.length; at++) {
    const text = lines[at] ?? "";
    if (COMMENT.test(text)) continue;
    const line = lineAt(text);
    const depth = line === null ? text.search(/\S/) : line.indent;
    if (own !== null && depth <= outer) break;
    if (own === null && depth < indent) break;
    if (line === null) continue;
    if (there.size === 0) indent = Math.max(indent === 0 ? 0 : outer + 1, line.indent);
    if (line.indent === indent) there.add(line.key);
  }
  return {
    path,
    description: path.length === 0 ? "" : said(root, schema),
    kind: [...new Set(every.map((option) => String(option["type"] ?? (option["enum"] ? "choice" : ""))))].filter((one) => one !== "").join(" or "),
    preset: "default" in schema ? JSON.stringify(schema["default"]) : null,
    choices: every.flatMap((option) => (Array.isArray(option["enum"]) ? option["enum"].map(String) : "const" in option ? [String(option["const"])] : [])),
    keys: known.map(([name, inner]) => ({ name, description: said(root, inner as Schema), there: there.has(name) })),
    open: own === null || own.open,
    indent,
    after: row,
  };
}

function firstOf(lines: string[], row: number, path: string[]): number {
  for (let at = row; at > 0; at--) {
    const line = COMMENT.test(lines[at - 1] ?? "") ? null : lineAt(lines[at - 1] ?? "");
    if (line !== null && line.key === path[path.length - 1]) return at;
  }
  return 0;
}
