// What a query finds and why: two ways to answer it side by side, the threshold as a line to drag.

import { useCallback, useEffect, useState } from "preact/hooks";
import { get, post } from "../api";
import { Carriers } from "../parts/carriers";
import { Ranked } from "../parts/ranked";
import type { Found, Label, Me } from "../types";
import { Empty, Failure, ms, number, Page, plain, share, words } from "../ui";
import { wantsLogin } from "./connect";

export interface Settings {
  ranker: string;
  threshold: number;
  top_k: number;
}

interface Asked {
  queries: string[];
  endpoint: string;
  as: string;
}

const KEEP = "armory.playground";
const kept = (): { text?: string; endpoint?: string } => {
  try {
    return JSON.parse(sessionStorage.getItem(KEEP) ?? "{}") as { text?: string; endpoint?: string };
  } catch {
    return {};
  }
};

export function Playground({ me }: { me: Me }) {
  const configured: Settings = {
    ranker: me.ranker ?? "relevance",
    threshold: me.threshold ?? 0.5,
    top_k: me.max_tools ?? 20,
  };
  const [text, setText] = useState(kept().text ?? "");
  const [endpoint, setEndpoint] = useState(me.endpoints.find((path) => path === kept().endpoint) ?? "");
  const [as, setAs] = useState("");
  const [asked, setAsked] = useState<Asked | null>(null);
  const [sides, setSides] = useState<Settings[]>([configured]);
  const [labels, setLabels] = useState<Record<string, Label>>({});
  const [problem, setProblem] = useState<string | null>(null);

  useEffect(() => {
    if (!me.features.labels) return;
    get<{ labels: Label[] }>("/v1/labels").then(
      (found) => setLabels(Object.fromEntries(found.labels.map((label) => [label.query, label]))),
      (error: unknown) => setProblem(words(error)),
    );
  }, [me.features.labels]);

  const go = (): void => {
    const queries = text.split("\n").map((line) => line.trim()).filter(Boolean);
    if (queries.length === 0) return;
    sessionStorage.setItem(KEEP, JSON.stringify({ text, endpoint }));
    setAsked({ queries, endpoint, as: as.trim() });
  };
  const change = (place: number, to: Partial<Settings>): void =>
    setSides(sides.map((side, at) => (at === place ? { ...side, ...to } : side)));
  const mark = useCallback(async (query: string, tool: string | null, right: boolean | null) => {
    setProblem(null);
    try {
      const label = await post<Label>("/v1/labels", { query, tool, right });
      setLabels((before) => ({ ...before, [query]: label }));
    } catch (error) {
      setProblem(words(error));
    }
  }, []);

  if (!me.features.search)
    return (
      <Page title="Playground" lead="What a query finds, and why.">
        <Empty title="Retrieval is off">Set <code>tool_rag.enabled: true</code> in <code>armory.yaml</code> and restart.</Empty>
      </Page>
    );
  return (
    <Page title="Playground" lead="Ask as a client would: this is what its tools/list would show, with every number that decided. Nothing is learned from it.">
      <form class="panel stack" onSubmit={(event) => { event.preventDefault(); go(); }}>
        <label class="field">Query (one intent a line, up to 16)
          <textarea value={text} rows={2} maxLength={8000} placeholder="e.g. convert a time to another zone"
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                go();
              }
            }} />
        </label>
        <div class="row end">
          <label class="field grow">Endpoint
            <select value={endpoint} onChange={(event) => setEndpoint(event.currentTarget.value)}>
              {me.endpoints.map((path) => <option key={path} value={path}>{path === "" ? "/mcp (everything)" : `/mcp/${plain(path)}`}</option>)}
            </select>
          </label>
          {me.admin && (
            <label class="field grow">Seen as
              <input list="principals" value={as} placeholder="yourself" onInput={(event) => setAs(event.currentTarget.value)} />
              <datalist id="principals">{me.principals.map((name) => <option key={name} value={`token:${name}`} />)}</datalist>
            </label>
          )}
          <button class="primary">Search</button>
          <button type="button" aria-pressed={sides.length > 1}
            onClick={() => setSides(sides.length > 1 ? sides.slice(0, 1) : [...sides, { ...sides[0] as Settings, ranker: me.rankers.find((r) => r !== sides[0]?.ranker) ?? "hybrid" }])}>
            Compare</button>
        </div>
        {me.admin && <p class="small muted">Seen as: <code>token:NAME</code> of a static token, or a user's id; empty: yourself.</p>}
      </form>
      <Failure error={problem} />
      {asked === null
        ? <Empty title="No query yet">Type what you would ask an assistant to do, and press Enter. Shift + Enter begins another intent.</Empty>
        : <div class="compare">
            {sides.map((side, place) => (
              <Side key={place} name={sides.length > 1 ? "AB"[place] ?? "" : ""} asked={asked} me={me} settings={side}
                configured={configured} change={(to) => change(place, to)} labels={labels} mark={mark} />
            ))}
          </div>}
      {me.features.labels && Object.keys(labels).length > 0 && <Labelled labels={Object.values(labels)} />}
    </Page>
  );
}

interface SideProps {
  name: string;
  asked: Asked;
  me: Me;
  settings: Settings;
  configured: Settings;
  change: (to: Partial<Settings>) => void;
  labels: Record<string, Label>;
  mark: (query: string, tool: string | null, right: boolean | null) => Promise<void>;
}

function Side(props: SideProps) {
  const { asked, settings, me } = props;
  const [answered, setAnswered] = useState<{ asked: Asked; found: Found } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const end = new AbortController();
    const body: Record<string, unknown> = { ...settings, queries: asked.queries, endpoint: asked.endpoint, candidates: 50 };
    if (asked.as !== "") body["principal"] = asked.as.startsWith("token:") ? { token: asked.as.slice(6) } : { user: asked.as };
    setBusy(true);
    // the line is dragged: ask when it rests
    const timer = setTimeout(() => {
      post<Found>("/v1/search", body, end.signal).then(
        (found) => { setAnswered({ asked, found }); setError(null); setBusy(false); },
        (problem: unknown) => { if (!end.signal.aborted) { setError(words(problem)); setAnswered(null); setBusy(false); } },
      );
    }, answered === null ? 0 : 150);
    return () => { clearTimeout(timer); end.abort(); };
  }, [asked, settings.ranker, settings.threshold, settings.top_k, turn]);
  // what is shown answers what was asked then, which another question may have followed
  const found = answered?.found ?? null;
  const { queries, endpoint } = answered?.asked ?? asked;
  const query = queries.join("\n");
  return (
    <section class="panel" aria-label={props.name ? `Configuration ${props.name}` : "Result"} aria-busy={busy}>
      {props.name && <h2>{props.name}</h2>}
      <div class="row end">
        <label class="field">Ranker
          <select value={settings.ranker} onChange={(event) => props.change({ ranker: event.currentTarget.value })}>
            {me.rankers.map((ranker) => <option key={ranker}>{ranker}</option>)}
          </select>
        </label>
        <label class="field">Threshold
          <input type="number" min="0" max="1" step="0.01" value={settings.threshold}
            onChange={(event) => props.change({ threshold: bounded(event.currentTarget.valueAsNumber, 0, 1) })} />
        </label>
        <label class="field">Most tools
          <input type="number" min="1" max="200" value={settings.top_k}
            onChange={(event) => props.change({ top_k: Math.round(bounded(event.currentTarget.valueAsNumber, 1, 200)) })} />
        </label>
        <button type="button" onClick={() => props.change(props.configured)}>As configured</button>
      </div>
      <Failure error={error} retry={() => setTurn(turn + 1)} />
      {found === null && busy && <p class="muted" role="status">Searching…</p>}
      {found !== null && <Summary found={found} />}
      {found !== null && <Carriers queries={queries} endpoint={endpoint} {...settings} login={wantsLogin(me)} />}
      {found !== null && found.candidates.length === 0 && (
        <Empty title="Nothing to rank">
          {found.visible === 0 ? "Nothing is visible at this endpoint for this caller." : "No visible tool has anything to do with the query."}
        </Empty>
      )}
      {found !== null && found.candidates.length > 0 && (
        <Ranked found={found} threshold={settings.threshold} drag={(to) => props.change({ threshold: to })}
          label={me.features.labels ? (Object.hasOwn(props.labels, query) ? props.labels[query] : null) : undefined}
          mark={(tool, right) => void props.mark(query, tool, right)} />
      )}
    </section>
  );
}

const bounded = (value: number, least: number, most: number): number =>
  Number.isFinite(value) ? Math.min(most, Math.max(least, value)) : least;

const RULES: [keyof NonNullable<Found["hidden"]>, string][] = [
  ["endpoint", "are not at this endpoint"],
  ["policy", "are denied by security.policies"],
  ["packs", "are in no active pack of this user"],
  ["apps", "are for apps alone"],
];

function Summary({ found }: { found: Found }) {
  const { tokens, hidden } = found;
  const spared = Math.max(0, tokens.all - tokens.listed);
  const stages = Object.entries(found.ms).filter(([name]) => name !== "total");
  const total = found.ms["total"] ?? 0;
  const out: Record<string, number> = {};
  for (const one of found.candidates) if (one.withheld) out[one.withheld] = (out[one.withheld] ?? 0) + 1;
  const rules = hidden ? RULES.filter(([rule]) => hidden[rule] > 0) : [];
  return (
    <div class="small" aria-live="polite">
      <p><strong>{number(found.listed.length)} of {number(found.visible)} tools listed</strong>
        {found.pinned.length > 0 && <>, {found.pinned.length} pinned</>} · {number(tokens.listed)} tokens instead of {number(tokens.all)}:{" "}
        <strong>{number(spared)} saved</strong> ({share(spared, tokens.all)}) · {ms(total)}</p>
      {found.refused && <p><span class="tag warn">refused</span> It reads like a query that needs no tool.</p>}
      {found.degraded !== null && <p><span class="tag warn">degraded</span> {plain(found.degraded)}</p>}
      <div class="stages" aria-hidden="true">
        {stages.map(([name, took]) => <span key={name} style={{ width: `${total > 0 ? (100 * took) / total : 0}%` }} />)}
      </div>
      <p class="muted">{stages.map(([name, took], place) => (
        <><span key={name} class="nowrap"><span class={`key k${place % 4}`} aria-hidden="true" />{name} {ms(took)}</span> </>))}</p>
      {(Object.keys(out).length > 0 || rules.length > 0) && (
        <p class="muted">Withheld: {[
          ...Object.entries(out).map(([why, count]) => `${count} of the best ${found.candidates.length} for "${why}"`),
          ...rules.map(([rule, said]) => `${number(hidden?.[rule] ?? 0)} ${said}`),
        ].join("; ")}.</p>
      )}
    </div>
  );
}

function Labelled({ labels }: { labels: Label[] }) {
  const [folder, setFolder] = useState("");
  useEffect(() => {
    get<{ folder: string }>("/v1/labels").then((found) => setFolder(found.folder), () => undefined);
  }, []);
  const useful = labels.filter((label) => label.right.length > 0 || label.none).length;
  return (
    <section class="panel">
      <h2>Labelled queries</h2>
      <p class="small">{useful} {useful === 1 ? "query" : "queries"} with a right answer. On the gateway's machine:</p>
      {folder !== "" && <pre tabIndex={0}>armory eval "{folder}"{"\n"}armory tune "{folder}"</pre>}
      <details><summary class="small">All of them</summary>
        <div class="scroll"><table>
          <thead><tr><th>Query</th><th>Right</th><th>Wrong</th></tr></thead>
          <tbody>{labels.map((label) => (
            <tr key={label.query}><td class="break">{plain(label.query)}</td>
              <td class="break">{label.none ? "no tool fits" : label.right.map(plain).join(", ")}</td><td class="break">{label.wrong.map(plain).join(", ")}</td></tr>))}
          </tbody>
        </table></div>
      </details>
    </section>
  );
}
