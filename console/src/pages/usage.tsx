// What is used, how it fares, and what was looked for in vain.

import { useMemo, useRef, useState } from "preact/hooks";
import { Charts, type Minute } from "../parts/chart";
import type { Me } from "../types";
import { counted, Empty, Failure, Loading, ms, number, Page, plain, share, useAnswer } from "../ui";

interface ToolUse { tool: string; uses: number; successes: number; error_rate: number; p50_ms: number; p99_ms: number; last_used_at_ms: number }
interface Asked { query_id: string; at_ms: number; user: string | null; query: string; returned: string[]; visible: number; top_score: number; degraded: string | null }

const POLL_MS = 15_000;
const SHOWN = 200;

interface Timeline { process: string; since_ms: number; stretch_ms: number; callers: string[]; minutes: Minute[] }

export function Usage({ me }: { me: Me }) {
  const [server, setServer] = useState("");
  const [tool, setTool] = useState("");
  const [who, setWho] = useState("");
  const asked = new URLSearchParams(Object.entries({ server, tool, who }).filter(([, value]) => value !== ""));
  const minutes = useAnswer<Timeline>(`/v1/activity/minutes?${asked}`, POLL_MS);
  const together = useTogether(minutes.data);
  const callers = [...new Set([...(together?.callers ?? []), ...(who === "" ? [] : [who])])].sort();
  const tools = useAnswer<{ tools: ToolUse[] }>("/v1/usage/tools", POLL_MS);
  const queries = useAnswer<{ queries: Asked[] }>(me.admin || me.user !== null ? "/v1/queries?limit=1000" : null, POLL_MS);
  const nothing = useMemo(() => timesAsked((queries.data?.queries ?? []).filter((one) => one.returned.length === 0)), [queries.data]);
  const used = tools.data?.tools.filter((tool) => tool.uses > 0) ?? [];
  const servers = useMemo(() => byServer(used), [tools.data]);
  return (
    <Page title="Usage" lead="What is called and how it fares; what was looked for and not found.">
      <Failure error={minutes.error ?? tools.error ?? queries.error} retry={() => { minutes.reload(); tools.reload(); queries.reload(); }} />
      <section class="panel" aria-label="Over time">
        <h2>Over time</h2>
        <div class="row end">
          <Choice label="Server" value={server} choices={servers.map((one) => one.server)} set={(value) => { setServer(value); setTool(""); }} />
          <Choice label="Tool" value={tool} choices={used.map((one) => one.tool).filter((one) => server === "" || one.startsWith(`${server}__`)).slice(0, SHOWN)} set={setTool} />
          {me.admin && <Choice label="Caller" value={who} choices={callers} set={setWho} />}
        </div>
        {minutes.data === null && minutes.loading && <Loading of="charts" />}
        {together !== null && <OverTime found={together} whose={me.admin ? "" : "Yours: "} />}
      </section>
      {tools.data === null && tools.loading && <Loading of="statistics" />}
      {tools.data !== null && used.length === 0 && <Empty title="No call yet">Statistics come with the first calls, a few seconds late.</Empty>}
      {servers.length > 0 && (
        <section class="panel" aria-label="By server"><h2>By server</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Calls by server"><table>
            <thead><tr><th>Server</th><th class="number">Calls</th><th class="number">Failed</th><th class="number">Slowest p99</th></tr></thead>
            <tbody>{servers.map((one) => (
              <tr key={one.server}><td class="break">{plain(one.server)}</td><td class="number">{number(one.uses)}</td><td class="number">{share(one.failed, one.uses)}</td><td class="number">{ms(one.p99)}</td></tr>))}
            </tbody>
          </table></div>
        </section>
      )}
      {used.length > 0 && (
        <section class="panel" aria-label="By tool"><h2>By tool</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Calls by tool"><table>
            <thead><tr><th>Tool</th><th class="number">Calls</th><th class="number">Failed</th><th class="number">p50</th><th class="number">p99</th><th>Last</th></tr></thead>
            <tbody>{used.slice(0, SHOWN).map((tool) => (
              <tr key={tool.tool}><td class="break"><a class="mono" href={`#/tools/${encodeURIComponent(tool.tool)}`}>{plain(tool.tool)}</a></td>
                <td class="number">{number(tool.uses)}</td><td class="number">{share(tool.error_rate, 1)}</td>
                <td class="number">{ms(tool.p50_ms)}</td><td class="number">{ms(tool.p99_ms)}</td>
                <td class="nowrap">{tool.last_used_at_ms ? new Date(tool.last_used_at_ms).toLocaleString("en-GB") : "–"}</td></tr>))}
            </tbody>
          </table></div>
          {used.length > SHOWN && <p class="small muted">{number(used.length - SHOWN)} more were called less.</p>}
        </section>
      )}
      {queries.data !== null && (
        <section class="panel" aria-label="Found nothing"><h2>Queries that found nothing</h2>
          {nothing.length === 0
            ? <p class="muted">{queries.data.queries.length === 0 ? "No query is in the log." : `None of the latest ${number(queries.data.queries.length)} queries.`}{" "}
                The query log is written with <code>observability.query_log.enabled: true</code>.</p>
            : <><p class="small muted">Of the latest {number(queries.data.queries.length)}: what people ask for and no visible tool does.</p>
                <ul>{nothing.slice(0, 100).map(([query, count]) => <li key={query} class="break">{plain(query)} <span class="tag">{count} ×</span></li>)}</ul></>}
        </section>
      )}
    </Page>
  );
}

/** What every process has counted that has answered here: behind one address may be replicas. */
function useTogether(found: Timeline | null): Timeline | null {
  const known = useRef(new Map<string, Timeline>());
  return useMemo(() => {
    if (found === null) {
      known.current.clear();
      return null;
    }
    known.current.set(found.process, found);
    const all = [...known.current.values()];
    return {
      ...found,
      since_ms: Math.min(...all.map((one) => one.since_ms)),
      callers: all.flatMap((one) => one.callers),
      minutes: all.flatMap((one) => one.minutes).sort((a, b) => a.at_ms - b.at_ms),
    };
  }, [found]);
}

function timesAsked(asked: Asked[]): [string, number][] {
  const found = new Map<string, number>();
  for (const one of asked) found.set(one.query, (found.get(one.query) ?? 0) + 1);
  return [...found].sort((a, b) => b[1] - a[1]);
}

function byServer(tools: ToolUse[]): { server: string; uses: number; failed: number; p99: number }[] {
  const found = new Map<string, { server: string; uses: number; failed: number; p99: number }>();
  for (const tool of tools) {
    const server = tool.tool.split("__")[0] ?? "";
    const one = found.get(server) ?? { server, uses: 0, failed: 0, p99: 0 };
    one.uses += tool.uses;
    one.failed += tool.uses - tool.successes;
    one.p99 = Math.max(one.p99, tool.p99_ms);
    found.set(server, one);
  }
  return [...found.values()].sort((a, b) => b.uses - a.uses);
}

function OverTime({ found, whose }: { found: Timeline; whose: string }) {
  const { minutes } = found;
  const sum = (pick: (minute: Minute) => number): number => minutes.reduce((total, minute) => total + pick(minute), 0);
  const since = new Date(found.since_ms).toLocaleString("en-GB", { dateStyle: "short", timeStyle: "short" });
  return (
    <>
      <p class="small muted">{whose === "" ? "Since" : `${whose}since`} {since}: {counted(sum((m) => m.calls), "call", "calls")}, {number(sum((m) => m.errors))} failed
        {sum((m) => m.queries) > 0 && <>; {counted(sum((m) => m.queries), "query", "queries")}, {number(sum((m) => m.empty))} found nothing; {number(sum((m) => m.saved_tokens))} tokens saved</>}.</p>
      {minutes.length > 0 ? <Charts minutes={minutes} stretch={found.stretch_ms} queries={sum((m) => m.queries) > 0} /> : <p class="muted">Nothing to draw.</p>}
    </>
  );
}

function Choice(props: { label: string; value: string; choices: string[]; set: (value: string) => void }) {
  return (
    <label class="field grow">{props.label}
      <select value={props.value} onChange={(event) => props.set(event.currentTarget.value)}>
        <option value="">all</option>{props.choices.map((one) => <option key={one} value={one}>{plain(one)}</option>)}
      </select>
    </label>
  );
}
