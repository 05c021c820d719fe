// The arguments of a tool as a form made of its JSON Schema; what a form cannot say is said in JSON.

import { useState } from "preact/hooks";
import { plain } from "../ui";
import { parsed, written } from "./digits";

type Schema = Record<string, unknown>;
type Values = Record<string, string>;

interface Field {
  name: string;
  schema: Schema;
  required: boolean;
  kind: "text" | "number" | "boolean" | "choice" | "json";
}

const object = (value: unknown): Schema => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {});

/** What is typed into a field; a tool may have arguments called `constructor`. */
const valueOf = (values: Values, name: string): string => (Object.hasOwn(values, name) ? values[name] ?? "" : "");

/** Without the null that an optional argument may be besides. */
function certain(schema: Schema): Schema {
  const { type, anyOf } = schema;
  if (Array.isArray(type)) {
    const rest = type.filter((one) => one !== "null");
    return rest.length === 1 ? { ...schema, type: rest[0] } : schema;
  }
  if (Array.isArray(anyOf)) {
    const rest = anyOf.map(object).filter((one) => one["type"] !== "null");
    return rest.length === 1 ? { ...rest[0], ...schema } : schema;
  }
  return schema;
}

function fields(schema: Schema): Field[] {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(object(schema["properties"])).map(([name, given]) => {
    const part = certain(object(given));
    const type = part["type"];
    let kind: Field["kind"] = "json";
    if (Array.isArray(part["enum"])) kind = "choice";
    else if (type === "string") kind = "text";
    else if (type === "number" || type === "integer") kind = "number";
    else if (type === "boolean") kind = "boolean";
    return { name, schema: part, required: required.includes(name), kind };
  });
}

/** The arguments that the fields say; throws an Error that names the field that cannot be read. */
function read(all: Field[], values: Values): Record<string, unknown> {
  const found: [string, unknown][] = [];
  for (const { name, schema, kind, required } of all) {
    const text = valueOf(values, name);
    if (text === "" && !(required && kind === "text")) {
      if (required) throw new Error(`${plain(name)} is needed`);
      continue;
    }
    if (kind === "text") found.push([name, text]);
    else if (kind === "choice") found.push([name, (schema["enum"] as unknown[])[Number(text)]]);
    else if (kind === "number") found.push([name, exact(name, text)]);
    else
      try {
        found.push([name, parsed(text)]);
      } catch {
        throw new Error(`${plain(name)} is no JSON value`);
      }
  }
  return Object.fromEntries(found);
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A number as it was typed: one that would become another is refused. */
function exact(name: string, text: string): unknown {
  const given = text.trim();
  const value = NUMBER.test(given) ? Number(given) : NaN;
  if (!Number.isFinite(value)) throw new Error(`${plain(name)} is no number`);
  if (!/^[+-]?\d+$/.test(given)) return value;
  const whole = written(given);
  if (whole === null) throw new Error(`${plain(name)} has more digits than this browser can send`);
  return whole;
}

const said = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

export function SchemaForm(props: { schema: Schema; busy: boolean; send: (given: Record<string, unknown>) => void }) {
  const all = fields(props.schema);
  const [values, setValues] = useState<Values>({});
  const [json, setJson] = useState<string | null>(null); // kept until the form says something else
  const [open, setOpen] = useState(false);
  const asJson = open ? json : null;
  const [problem, setProblem] = useState<string | null>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (props.busy) return;
    setProblem(null);
    try {
      const given: unknown = asJson === null ? read(all, values) : parsed(asJson || "{}");
      if (typeof given !== "object" || given === null || Array.isArray(given)) throw new Error("the arguments are no JSON object");
      props.send(given as Record<string, unknown>);
    } catch (error) {
      setProblem(error instanceof SyntaxError ? `the arguments are no JSON: ${error.message}` : (error as Error).message);
    }
  };
  const turn = (): void => {
    setProblem(null);
    if (open) return setOpen(false);
    try {
      setJson(json ?? JSON.stringify(read(all.map((field) => ({ ...field, required: false })), values), null, 2));
      setOpen(true);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const set = (name: string, value: string): void => {
    setValues({ ...values, [name]: value });
    setJson(null);
  };
  return (
    <form class="stack" onSubmit={submit} noValidate>
      {asJson !== null && (
        <label class="field">Arguments in JSON
          <textarea class="mono" rows={8} spellcheck={false} value={asJson} onInput={(event) => setJson(event.currentTarget.value)} />
        </label>
      )}
      {asJson === null && all.length === 0 && <p class="muted">It takes no arguments.</p>}
      {asJson === null && all.map((field) => <Input key={field.name} field={field} value={valueOf(values, field.name)} set={(value) => set(field.name, value)} />)}
      {problem !== null && <div class="notice bad" role="alert">{problem}</div>}
      <div class="row">
        <button class="primary" aria-disabled={props.busy}>{props.busy ? "Calling…" : "Call"}</button>
        <button type="button" onClick={turn}>{asJson === null ? "Arguments in JSON" : "Back to the form"}</button>
      </div>
    </form>
  );
}

function Input({ field, value, set }: { field: Field; value: string; set: (value: string) => void }) {
  const { schema, kind } = field;
  const about = typeof schema["description"] === "string" ? plain(schema["description"]) : "";
  const preset = "default" in schema ? `default ${said(schema["default"])}` : "";
  const type = typeof schema["type"] === "string" ? schema["type"] : kind === "json" ? "JSON" : "";
  return (
    <label class="field break">
      <span><span class="mono">{plain(field.name)}</span>{field.required ? " (required)" : ""} <span class="muted">{type}</span></span>
      {kind === "text" && <textarea rows={1} value={value} placeholder={plain(preset)} onInput={(event) => set(event.currentTarget.value)} />}
      {kind === "number" && <input inputMode="decimal" autocomplete="off" value={value} placeholder={plain(preset)} onInput={(event) => set(event.currentTarget.value)} />}
      {kind === "json" && <textarea class="mono" rows={2} value={value} placeholder={plain(preset) || "JSON"} onInput={(event) => set(event.currentTarget.value)} />}
      {kind === "boolean" && (
        <select value={value} onChange={(event) => set(event.currentTarget.value)}>
          <option value="">{plain(preset) || "not given"}</option><option>true</option><option>false</option>
        </select>
      )}
      {kind === "choice" && (
        <select value={value} onChange={(event) => set(event.currentTarget.value)}>
          <option value="">{plain(preset) || "not given"}</option>
          {(schema["enum"] as unknown[]).map((one, place) => <option key={place} value={place}>{plain(said(one))}</option>)}
        </select>
      )}
      {about !== "" && <span class="small">{about}</span>}
    </label>
  );
}
