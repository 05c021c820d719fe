// Small charts over time, each with the same as a table.

import { clock, ms, number } from "../ui";

export interface Minute { at_ms: number; calls: number; errors: number; queries: number; empty: number; saved_tokens: number; p50_ms: number | null; p99_ms: number | null }

const BARS = 48;
const WIDE = 10;
const HIGH = 100;

interface Bar { at: number; calls: number; errors: number; queries: number; empty: number; saved: number; p50: number | null; p99: number | null }

/** Even stretches of time from the first minute to now, none shorter than what was counted in; the slowest minute of each counts. */
export function barsOf(minutes: Minute[], now: number, stretch: number): { bars: Bar[]; wide: number } {
  const end = Math.max(now, minutes[minutes.length - 1]?.at_ms ?? 0) + stretch;
  const start = Math.min(minutes[0]?.at_ms ?? end, end - 3_600_000);
  const count = Math.max(1, Math.min(BARS, Math.floor((end - start) / stretch)));
  const wide = (end - start) / count;
  const bars = Array.from({ length: count }, (_, place): Bar => ({ at: start + place * wide, calls: 0, errors: 0, queries: 0, empty: 0, saved: 0, p50: null, p99: null }));
  const slower = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : Math.max(a, b));
  for (const minute of minutes) {
    const bar = bars[Math.min(count - 1, Math.max(0, Math.floor((minute.at_ms - start) / wide)))] as Bar;
    bar.calls += minute.calls;
    bar.errors += minute.errors;
    bar.queries += minute.queries;
    bar.empty += minute.empty;
    bar.saved += minute.saved_tokens;
    bar.p50 = slower(bar.p50, minute.p50_ms);
    bar.p99 = slower(bar.p99, minute.p99_ms);
  }
  return { bars, wide };
}

interface Props {
  name: string;
  bars: Bar[];
  wide: number;
  main: { said: string; of: (bar: Bar) => number | null };
  part: { said: string; of: (bar: Bar) => number | null } | null; // drawn over the other
  tone: "bad" | "deep";
  shown?: (value: number) => string;
}

export function Chart({ name, bars, wide, main, part, tone, shown = number }: Props) {
  const most = Math.max(0, ...bars.map((bar) => Math.max(main.of(bar) ?? 0, part?.of(bar) ?? 0)));
  const top = most || 1;
  const high = (value: number | null): number => (HIGH * (value ?? 0)) / top;
  const filled = bars.filter((bar) => main.of(bar));
  const value = (found: number | null): string => (found === null ? "–" : shown(found));
  return (
    <figure class="figure-chart">
      <figcaption class="small"><strong>{name}</strong>: at most {shown(most)} in {Math.max(1, Math.round(wide / 60_000))} min
        {part !== null && <> · <span class={`key ${tone}`} /> {part.said}</>}</figcaption>
      <svg class="chart" viewBox={`0 0 ${bars.length * WIDE} ${HIGH}`} preserveAspectRatio="none" role="img" aria-label={`${name} over time; the table below has the figures`}>
        {[0, HIGH / 2, HIGH].map((y) => <line key={y} class="grid" x1="0" x2={bars.length * WIDE} y1={y} y2={y} vector-effect="non-scaling-stroke" />)}
        {bars.map((bar, place) => !!main.of(bar) && (
          <g key={place}>
            <rect class="bar" x={place * WIDE + 1} width={WIDE - 2} y={HIGH - high(main.of(bar))} height={high(main.of(bar))} />
            {part !== null && <rect class={tone} x={place * WIDE + 1} width={WIDE - 2} y={HIGH - high(part.of(bar))} height={high(part.of(bar))} />}
          </g>))}
      </svg>
      <div class="row spread small muted"><span>{clock(bars[0]?.at ?? 0)}</span><span>{clock((bars[bars.length - 1]?.at ?? 0) + wide)}</span></div>
      <details class="small"><summary>{name} as a table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={`${name} over time`}><table>
          <thead><tr><th>From</th><th class="number">{main.said}</th>{part !== null && <th class="number">{part.said}</th>}</tr></thead>
          <tbody>{filled.map((bar) => (
            <tr key={bar.at}><td>{clock(bar.at)}</td><td class="number">{value(main.of(bar))}</td>{part !== null && <td class="number">{value(part.of(bar))}</td>}</tr>))}
          </tbody>
        </table></div>
        {filled.length === 0 && <p class="muted">Nothing yet.</p>}
      </details>
    </figure>
  );
}

export function Charts({ minutes, stretch, queries }: { minutes: Minute[]; stretch: number; queries: boolean }) {
  const { bars, wide } = barsOf(minutes, Date.now(), stretch);
  return (
    <div class="compare">
      <Chart name="Calls" bars={bars} wide={wide} main={{ said: "calls", of: (bar) => bar.calls }} part={{ said: "failed", of: (bar) => bar.errors }} tone="bad" />
      <Chart name="Time of calls" bars={bars} wide={wide} main={{ said: "p99", of: (bar) => bar.p99 }} part={{ said: "p50", of: (bar) => bar.p50 }} tone="deep" shown={ms} />
      {queries && <>
        <Chart name="Queries" bars={bars} wide={wide} main={{ said: "queries", of: (bar) => bar.queries }} part={{ said: "found nothing", of: (bar) => bar.empty }} tone="bad" />
        <Chart name="Tokens saved" bars={bars} wide={wide} main={{ said: "tokens", of: (bar) => bar.saved }} part={null} tone="deep" />
      </>}
    </div>
  );
}
