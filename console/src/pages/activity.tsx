// What was called, listed and searched lately, as it happens.

import { useMemo, useState } from "preact/hooks";
import { get, Refused } from "../api";
import { parsed } from "../parts/digits";
import { useEntries } from "../parts/entries";
import type { ActivityEntry, Me } from "../types";
import { clock, Empty, Failure, Loading, ms, number, Page, plain, useAnswer } from "../ui";

const POLL_MS = 2000;
const KEPT = 1000;
const SHOWN = 300;
const TURNS = 20;

export function Activity({ me }: { me: Me }) {
  const [live, setLive] = useState(true);
  const [kind, setKind] = useState("");
  const [outcome, setOutcome] = useState("");
  const [text, setText] = useState("");
  const { entries, error } = useEntries(KEPT, POLL_MS, live);
  const shown = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    return (entries ?? []).filter((entry) =>
      (kind === "" || entry.kind === kind) &&
      (outcome === "" || outcomeOf(entry) === outcome) &&
      (wanted === "" || `${entry.who}\n${entry.what}\n${entry.trace ?? ""}`.toLowerCase().includes(wanted)));
  }, [entries, kind, outcome, text]);
  const processes = useMemo(() => new Set((entries ?? []).map((entry) => entry.process)).size, [entries]);
  return (
    <Page title="Activity" lead={me.admin
      ? "The latest calls, listings with a query and searches of everybody, since the gateway started."
      : "Your latest calls, listings with a query and searches."}>
      {me.admin && entries !== null && entries.some((entry) => entry.kind === "call") && !entries.some((entry) => entry.contents) && (
        <p class="small muted">Arguments and results are not kept; <code>observability.activity</code> switches that on.</p>
      )}
      <div class="panel row end">
        <label class="field">Kind
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="">all</option><option value="call">calls</option><option value="listing">listings</option><option value="search">searches</option>
          </select>
        </label>
        <label class="field">Outcome
          <select value={outcome} onChange={(event) => setOutcome(event.currentTarget.value)}>
            <option value="">all</option><option value="done">done</option><option value="failed">failed</option><option value="cancelled">cancelled</option><option value="nothing found">nothing found</option>
          </select>
        </label>
        <label class="field grow">Tool, query, caller or trace<input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <button type="button" aria-pressed={live} onClick={() => setLive(!live)}>Live</button>
      </div>
      <Failure error={error} />
      {processes > 1 && <p class="small muted">Of {number(processes)} processes that have answered here: each replica keeps its own, and a new one begins anew.</p>}
      {entries === null && error === null && <Loading of="activity" />}
      {entries !== null && entries.length === 0 && (
        <Empty title="Nothing yet">Call a tool under <a href="#/tools">Tools</a>, ask something in the <a href="#/playground">playground</a>, or <a href="#/connect">connect a client</a>.</Empty>
      )}
      {entries !== null && entries.length > 0 && shown.length === 0 && <Empty title="Nothing fits">No entry fits these filters.</Empty>}
      {shown.length > 0 && (
        <div class="panel scroll" tabIndex={0} role="region" aria-label="Entries">
          <table>
            <thead><tr><th>Time</th><th>Kind</th>{me.admin && <th>Caller</th>}<th>Tool or query</th><th>Outcome</th><th class="number">Took</th></tr></thead>
            <tbody>{shown.slice(0, SHOWN).map((entry) => <Line key={`${entry.process}:${entry.seq}`} entry={entry} admin={me.admin} />)}</tbody>
          </table>
          {shown.length > SHOWN && <p class="small muted">{number(shown.length - SHOWN)} older ones fit, too.</p>}
        </div>
      )}
    </Page>
  );
}

const outcomeOf = (entry: ActivityEntry): string => {
  if (entry.ok === null) return "cancelled";
  if (!entry.ok) return "failed";
  return entry.kind !== "call" && entry.found.length === 0 ? "nothing found" : "done";
};

function Line({ entry, admin }: { entry: ActivityEntry; admin: boolean }) {
  const outcome = outcomeOf(entry);
  const tone = outcome === "failed" ? "bad" : outcome === "done" ? "good" : "warn";
  return (
    <tr>
      <td class="nowrap">{clock(entry.at_ms)}</td>
      <td>{entry.kind}</td>
      {admin && <td class="break">{plain(entry.who)}</td>}
      <td class="break">
        {entry.kind === "call" ? <a class="mono" href={`#/tools/${encodeURIComponent(entry.what)}`}>{plain(entry.what)}</a> : plain(entry.what)}
        {entry.kind !== "call" && entry.found.length > 0 && <div class="small muted">found {entry.found.slice(0, 5).map(plain).join(", ")}{entry.found.length > 5 ? ", …" : ""}; {number(entry.saved_tokens)} tokens saved</div>}
        {entry.trace !== null && <div class="small muted">trace <code class="break">{plain(entry.trace)}</code></div>}
        {entry.degraded !== null && <div class="small">degraded: {plain(entry.degraded)}</div>}
        {entry.contents && <Contents entry={entry} />}
      </td>
      <td><span class={`tag ${tone}`}>{outcome}</span></td>
      <td class="number nowrap">{ms(entry.ms)}</td>
    </tr>
  );
}

/** JSON on several lines; what was cut off as it is. */
function spread(text: string): string {
  try {
    return plain(JSON.stringify(parsed(text), null, 2));
  } catch {
    return plain(text);
  }
}

/** Asked until the replica answers that has it. */
async function ofItsProcess<T>(path: string, signal: AbortSignal): Promise<T> {
  for (let turn = 1; ; turn++) {
    try {
      return await get<T>(path, signal);
    } catch (problem) {
      if (!(problem instanceof Refused) || problem.problem.code !== "other_process" || turn === TURNS) throw problem;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** What a call said, asked for when somebody wants to see it. */
function Contents({ entry }: { entry: ActivityEntry }) {
  const [open, setOpen] = useState(false);
  const path = open ? `/v1/activity/${entry.seq}?process=${entry.process}` : null;
  const { data, error } = useAnswer<{ arguments: string | null; result: string | null }>(path, 0, ofItsProcess);
  return (
    <details class="small" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Arguments and result</summary>
      <Failure error={error} />
      {open && data === null && error === null && <Loading of="arguments" />}
      {data !== null && <>
        <pre tabIndex={0}>{data.arguments === null ? "Arguments: none, or not kept." : spread(data.arguments)}</pre>
        <pre tabIndex={0}>{data.result === null ? "Result: none, or not kept." : spread(data.result)}</pre>
      </>}
    </details>
  );
}
