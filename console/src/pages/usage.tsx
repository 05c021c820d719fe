// What is used, how it fares, and what was looked for in vain.

import { useMemo } from "preact/hooks";
import type { Me } from "../types";
import { clock, Empty, Failure, Loading, ms, number, Page, plain, share, useAnswer } from "../ui";

interface Minute { at_ms: number; calls: number; errors: number; queries: number; empty: number; saved_tokens: number; p50_ms: number | null; p99_ms: number | null }
interface ToolUse { tool: string; uses: number; successes: number; error_rate: number; p50_ms: number; p99_ms: number; last_used_at_ms: number }
interface Asked { query_id: string; at_ms: number; user: string | null; query: string; returned: string[]; visible: number; top_score: number; degraded: string | null }

const BARS = 48;

export function Usage({ me }: { me: Me }) {
  const minutes = useAnswer<{ minutes: Minute[] }>(me.admin ? "/v1/activity/minutes" : null, 15_000);
  const tools = useAnswer<{ tools: ToolUse[] }>("/v1/usage/tools", 15_000);
  const queries = useAnswer<{ queries: Asked[] }>(me.admin || me.user !== null ? "/v1/queries?limit=1000" : null, 15_000);
  const nothing = useMemo(() => counted((queries.data?.queries ?? []).filter((one) => one.returned.length === 0)), [queries.data]);
  const used = tools.data?.tools.filter((tool) => tool.uses > 0) ?? [];
  const servers = useMemo(() => byServer(used), [tools.data]);
  return (
    <Page title="Usage" lead="What is called and how it fares; what was looked for and not found.">
      <Failure error={minutes.error ?? tools.error ?? queries.error} retry={() => { minutes.reload(); tools.reload(); queries.reload(); }} />
      {me.admin && minutes.data !== null && <Charts minutes={minutes.data.minutes} />}
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
            <tbody>{used.slice(0, 200).map((tool) => (
              <tr key={tool.tool}><td class="break"><a class="mono" href={`#/tools/${encodeURIComponent(tool.tool)}`}>{plain(tool.tool)}</a></td>
                <td class="number">{number(tool.uses)}</td><td class="number">{share(tool.error_rate, 1)}</td>
                <td class="number">{ms(tool.p50_ms)}</td><td class="number">{ms(tool.p99_ms)}</td>
                <td class="nowrap">{tool.last_used_at_ms ? new Date(tool.last_used_at_ms).toLocaleString("en-GB") : "–"}</td></tr>))}
            </tbody>
          </table></div>
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

function counted(asked: Asked[]): [string, number][] {
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

function Charts({ minutes }: { minutes: Minute[] }) {
  const sum = (pick: (minute: Minute) => number): number => minutes.reduce((total, minute) => total + pick(minute), 0);
  return (
    <section class="panel" aria-label="The last day">
      <h2>The last day</h2>
      <p class="small muted">Since this gateway started, at most 24 hours: {number(sum((m) => m.calls))} calls, {number(sum((m) => m.errors))} failed;{" "}
        {number(sum((m) => m.queries))} queries, {number(sum((m) => m.empty))} found nothing; {number(sum((m) => m.saved_tokens))} tokens saved.</p>
      {minutes.length > 0 && (
        <div class="compare">
          <Chart name="Calls" minutes={minutes} all={(m) => m.calls} bad={(m) => m.errors} said="failed" />
          <Chart name="Queries" minutes={minutes} all={(m) => m.queries} bad={(m) => m.empty} said="found nothing" />
        </div>
      )}
    </section>
  );
}

/** Bars over the time from the first minute to now; their lower part is what went badly. */
function Chart(props: { name: string; minutes: Minute[]; all: (minute: Minute) => number; bad: (minute: Minute) => number; said: string }) {
  const { minutes, all, bad } = props;
  const end = Math.max(Date.now(), minutes[minutes.length - 1]?.at_ms ?? 0) + 60_000;
  const start = Math.min(minutes[0]?.at_ms ?? end, end - 3_600_000);
  const wide = (end - start) / BARS;
  const bars = Array.from({ length: BARS }, () => ({ all: 0, bad: 0 }));
  for (const minute of minutes) {
    const bar = bars[Math.min(BARS - 1, Math.max(0, Math.floor((minute.at_ms - start) / wide)))];
    if (bar) { bar.all += all(minute); bar.bad += bad(minute); }
  }
  const most = Math.max(1, ...bars.map((bar) => bar.all));
  const total = bars.reduce((sum, bar) => sum + bar.all, 0);
  return (
    <figure style={{ margin: 0 }}>
      <figcaption class="small">{props.name}: at most {number(most)} in {Math.max(1, Math.round(wide / 60_000))} min; red: {props.said}</figcaption>
      <svg class="chart" viewBox={`0 0 ${BARS * 10} 100`} preserveAspectRatio="none" role="img" aria-label={`${props.name} over time, ${total} in all`}>
        {[0, 50, 100].map((y) => <line key={y} class="grid" x1="0" x2={BARS * 10} y1={y} y2={y} vector-effect="non-scaling-stroke" />)}
        {bars.map((bar, place) => bar.all > 0 && (
          <g key={place}>
            <rect class="bar" x={place * 10 + 1} width="8" y={100 - (100 * bar.all) / most} height={(100 * bar.all) / most} />
            <rect class="bad" x={place * 10 + 1} width="8" y={100 - (100 * bar.bad) / most} height={(100 * bar.bad) / most} />
          </g>))}
      </svg>
      <div class="row spread small muted"><span>{clock(start)}</span><span>{clock(end)}</span></div>
    </figure>
  );
}
