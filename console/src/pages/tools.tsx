// All tools that the caller sees: find one, read its definition, call it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, post } from "../api";
import { SchemaForm } from "../parts/form";
import { type Called, Result } from "../parts/result";
import { Virtual } from "../parts/virtual";
import type { Me, ToolDetail, ToolRow } from "../types";
import { Copy, Empty, Failure, Loading, ms, number, Page, plain, share, useAnswer, words } from "../ui";

const AT_ONCE = 2_000;

interface Pack { id: string; title: string; servers: string[]; tools: string[] }

interface Rows {
  version: number;
  total: number;
  tools: ToolRow[];
}

/** Every tool, page by page; those that have come are shown meanwhile. */
function useTools(set: string): { tools: ToolRow[]; total: number | null; error: string | null; reload: () => void } {
  const [tools, setTools] = useState<ToolRow[]>([]);
  const [total, setTotal] = useState<number | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const end = new AbortController();
    const load = async (): Promise<void> => {
      let found: ToolRow[] = [];
      let version: number | null = null;
      for (let anew = 0; ; ) {
        const page = await get<Rows>(`/v1/tools?after=${found.length}&limit=${AT_ONCE}${set === "" ? "" : `&set=${encodeURIComponent(set)}`}`, end.signal);
        // pages of two catalogs are no list: begin again, unless it changes all the time
        if (version !== null && page.version !== version && anew < 3) {
          [found, version, anew] = [[], null, anew + 1];
          continue;
        }
        version = page.version;
        found = [...found, ...page.tools];
        setTools(found);
        setTotal(page.total);
        if (page.tools.length === 0 || found.length >= page.total) return;
      }
    };
    setError(null);
    load().catch((problem: unknown) => { if (!end.signal.aborted) setError(words(problem)); });
    return () => end.abort();
  }, [turn, set]);
  return { tools, total, error, reload: () => setTurn(turn + 1) };
}

const chosen = (): string | null => {
  const found = /^#\/tools\/(.+)$/.exec(location.hash)?.[1];
  try {
    return found === undefined ? null : decodeURIComponent(found);
  } catch {
    return null;
  }
};

/** Part by part: a list of some thousands comes in several. */
async function allPacks(path: string, signal: AbortSignal): Promise<Pack[]> {
  const found: Pack[] = [];
  for (let after: string | null = ""; after !== null;) {
    const part: { packs: Pack[]; next: string | null } = await get(`${path}?after=${encodeURIComponent(after)}`, signal);
    found.push(...part.packs);
    after = part.next ?? null;
  }
  return found;
}

/** Why a caller's list has no tool. */
function why(me: Me): string {
  if (!me.admin)
    return "There is none yet, or none that you may see. An administrator adds upstreams, decides under security.policies, or gives you a pack.";
  if (me.features.accounts && me.user !== null)
    return "No upstream has listed one yet, or none is among what you have installed: the overview says which are up, People what that is.";
  return "No upstream has listed one yet; the overview says which are up.";
}

export function Tools({ me }: { me: Me }) {
  const [set, setSet] = useState("");
  const [pack, setPack] = useState("");
  const { tools, total, error, reload } = useTools(set);
  const sets = me.endpoints.filter((path) => path.startsWith("set/")).map((path) => path.slice(4));
  const packs = useAnswer(me.features.accounts && (me.admin || me.user !== null) ? "/v1/packs" : null, 0, allPacks).data ?? [];
  const held = packs.find((one) => one.id === pack);
  const [text, setText] = useState("");
  const [server, setServer] = useState("");
  const [tag, setTag] = useState("");
  const [name, setName] = useState<string | null>(chosen());
  useEffect(() => {
    const moved = (): void => setName(chosen());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const servers = useMemo(() => [...new Set(tools.map((tool) => tool.server))].sort(), [tools]);
  const tags = useMemo(() => [...new Set(tools.flatMap((tool) => [...tool.tags, ...(tool.category ? [tool.category] : [])]))].sort(), [tools]);
  const shown = useMemo(() => {
    const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
    return tools.filter((tool) => {
      if (server !== "" && tool.server !== server) return false;
      if (held !== undefined && !held.servers.includes(tool.server) && !held.tools.includes(tool.name)) return false;
      if (tag !== "" && !tool.tags.includes(tag) && tool.category !== tag) return false;
      if (parts.length === 0) return true;
      const said = `${tool.name} ${tool.title} ${tool.description}`.toLowerCase();
      return parts.every((part) => said.includes(part));
    });
  }, [tools, text, server, tag, held]);
  const select = (tool: ToolRow): void => {
    setName(tool.name);
    try {
      history.replaceState(null, "", `#/tools/${encodeURIComponent(tool.name)}`);
    } catch {
      // browsers bound how often, which an arrow key that is held passes
    }
  };
  const cost = tools.reduce((sum, tool) => sum + tool.tokens, 0);
  return (
    <Page title="Tools" lead={total === null ? "What you may call here." :
      `${number(total)} ${total === 1 ? "tool" : "tools"}; all of their definitions would cost about ${number(cost)} tokens in a prompt.`}>
      <Failure error={error} retry={reload} />
      {total === null && error === null && <Loading of="tools" />}
      {total === 0 && set === "" && (
        <Empty title="No tool">{why(me)}</Empty>
      )}
      {total !== null && (total > 0 || set !== "") && (
        <div class="split">
          <div class="stack">
            <label class="field">Find<input type="search" value={text} placeholder="words of name or start of description" onInput={(event) => setText(event.currentTarget.value)} /></label>
            <div class="row">
              <label class="field grow">Server
                <select value={server} onChange={(event) => setServer(event.currentTarget.value)}>
                  <option value="">all</option>{servers.map((key) => <option key={key} value={key}>{plain(key)}</option>)}
                </select>
              </label>
              {sets.length > 0 && (
                <label class="field grow">Set
                  <select value={set} onChange={(event) => setSet(event.currentTarget.value)}>
                    <option value="">all</option>{sets.map((one) => <option key={one} value={one}>{plain(one)}</option>)}
                  </select>
                </label>
              )}
              {packs.length > 0 && (
                <label class="field grow">Pack
                  <select value={pack} onChange={(event) => setPack(event.currentTarget.value)}>
                    <option value="">all</option>{packs.map((one) => <option key={one.id} value={one.id}>{plain(one.title)}</option>)}
                  </select>
                </label>
              )}
              {tags.length > 0 && (
                <label class="field grow">Tag or category
                  <select value={tag} onChange={(event) => setTag(event.currentTarget.value)}>
                    <option value="">all</option>{tags.map((one) => <option key={one} value={one}>{plain(one)}</option>)}
                  </select>
                </label>
              )}
            </div>
            <p class="small muted" role="status">{number(shown.length)} of {number(total)}{tools.length < total ? `, ${number(tools.length)} loaded` : ""}</p>
            <Virtual label="Tools" items={shown} height={52} id={(tool) => tool.name} selected={name} select={select}>
              {(tool) => (
                <>
                  <div class="one mono">{plain(tool.name)}</div>
                  <div class="one small muted">{plain(tool.title || tool.description.split("\n")[0] || "no description")}</div>
                </>
              )}
            </Virtual>
          </div>
          {name === null ? <Empty title="No tool chosen">Choose one to read its definition and to call it.</Empty> : <Detail key={name} name={name} />}
        </div>
      )}
    </Page>
  );
}

const WARNS = new Set(["destructiveHint", "openWorldHint"]);

function Detail({ name }: { name: string }) {
  const path = `/v1/tools/${encodeURIComponent(name)}`;
  const { data, error, reload } = useAnswer<ToolDetail>(path);
  const [called, setCalled] = useState<Called | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  if (error !== null) return <Failure error={error} retry={reload} />;
  if (data === null) return <Loading of="the definition" />;
  const send = async (given: Record<string, unknown>): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      setCalled(await post<Called>(`${path}/call`, { arguments: given }));
    } catch (refused) {
      setProblem(words(refused));
      setCalled(null);
    }
    setBusy(false);
  };
  const schema = data.definition["inputSchema"];
  const definition = JSON.stringify(data.definition, null, 2);
  return (
    <div>
      <section class="panel break" aria-label="Definition">
        <h2 class="mono break">{plain(data.name)}</h2>
        {data.title !== "" && <p>{plain(data.title)}</p>}
        <p class="row small">
          <span class="tag">{plain(data.server)}</span>
          {data.category !== null && <span class="tag">{plain(data.category)}</span>}
          {data.tags.map((tag) => <span key={tag} class="tag">{plain(tag)}</span>)}
          {data.hints.map((hint) => <span key={hint} class={`tag ${WARNS.has(hint) ? "warn" : ""}`}>{plain(hint.replace(/Hint$/, ""))}</span>)}
          {data.pinned && <span class="tag good">in every listing</span>}
        </p>
        <pre tabIndex={0}>{plain(data.description) || "No description."}</pre>
        <p class="small muted">About {number(data.tokens)} tokens in a prompt
          {data.usage !== null && <> · {number(data.usage.uses)} calls lately, {share(data.usage.error_rate, 1)} failed, p50 {ms(data.usage.p50_ms)}, p99 {ms(data.usage.p99_ms)}</>}
          {" "}· fingerprint <code>{data.fingerprint.slice(0, 12)}</code></p>
        <details><summary>Definition in JSON</summary>
          <div class="row"><Copy text={definition} what="the definition" /></div>
          <pre tabIndex={0}>{plain(definition)}</pre></details>
      </section>
      <section class="panel" aria-label="Try it">
        <h2>Try it</h2>
        <SchemaForm schema={typeof schema === "object" && schema !== null ? (schema as Record<string, unknown>) : {}} busy={busy} send={(given) => void send(given)} />
        <Failure error={problem} />
        {called !== null && <Result called={called} />}
      </section>
    </div>
  );
}
