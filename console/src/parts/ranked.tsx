// Ranked tools with their scores, and the threshold as a line across them that can be dragged.

import { useRef, useState } from "preact/hooks";
import type { Candidate, Found, Label } from "../types";
import { number, plain } from "../ui";

interface Props {
  found: Found;
  threshold: number;
  drag: (to: number) => void;
  label: Label | null | undefined; // undefined: this caller may not label
  mark: (tool: string | null, right: boolean | null) => void;
}

const rounded = (value: number): number => Math.round(Math.min(1, Math.max(0, value)) * 100) / 100;

export function Ranked({ found, threshold, drag, label, mark }: Props) {
  const scale = useRef<HTMLDivElement>(null);
  const [held, setHeld] = useState<number | null>(null);
  const line = held ?? threshold;
  const at = (event: PointerEvent): number => {
    const box = scale.current?.getBoundingClientRect();
    return box ? rounded((event.clientX - box.left) / box.width) : line;
  };
  const keys = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01, PageDown: -0.1, PageUp: 0.1 };
    const to = event.key === "Home" ? 0 : event.key === "End" ? 1 : event.key in steps ? rounded(threshold + (steps[event.key] ?? 0)) : null;
    if (to === null) return;
    event.preventDefault();
    drag(to);
  };
  return (
    <div class="ranked">
      <div class="scale" ref={scale}><span class="small muted">score 0</span></div>
      <div class="threshold" role="slider" tabIndex={0} aria-label="Threshold" aria-valuemin={0} aria-valuemax={1} aria-valuenow={line}
        style={{ left: `calc(var(--bar-width) * ${line})` }}
        onKeyDown={keys}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          event.currentTarget.focus();
          setHeld(line);
          event.preventDefault();
        }}
        onPointerMove={(event) => { if (held !== null) setHeld(at(event)); }}
        onPointerUp={(event) => {
          if (held === null) return;
          setHeld(null);
          drag(at(event));
        }}
        onPointerCancel={() => setHeld(null)}>
        <output aria-hidden="true">{line.toFixed(2)}</output>
      </div>
      <ol>
        {found.candidates.map((one, place) => (
          <Row key={one.name} one={one} place={place + 1} pinned={found.pinned.includes(one.name)}
            off={held === null ? one.withheld !== null : one.score < held} label={label} mark={mark} />
        ))}
      </ol>
      {found.ranked > found.candidates.length && (
        <p class="small muted">{number(found.ranked - found.candidates.length)} more were ranked lower.</p>
      )}
      {label !== undefined && (
        <p class="small"><button type="button" aria-pressed={label?.none ?? false} onClick={() => mark(null, label?.none ? null : false)}>
          No tool fits this query</button></p>
      )}
    </div>
  );
}

/** Signals that are shares of one, best known first, and what they are called. */
const HEADLINES: [string, string][] = [
  ["name", "asked for by name"],
  ["cosine", "meaning"],
  ["similarity", "meaning"],
  ["covered", "words covered"],
  ["keyword", "words"],
  ["bm25", "words"],
  ["popularity", "popularity"],
  ["history", "your history"],
  ["performance", "performance"],
  ["in_name", "words in the name"],
  ["server_named", "server named"],
];

interface RowProps {
  one: Candidate;
  place: number;
  pinned: boolean;
  off: boolean;
  label: Label | null | undefined;
  mark: Props["mark"];
}

function Row({ one, place, pinned, off, label, mark }: RowProps) {
  const right = label?.right.includes(one.name) ?? false;
  const wrong = label?.wrong.includes(one.name) ?? false;
  const signals = Object.entries(one.signals);
  const most = Math.max(1e-9, ...signals.map(([, value]) => Math.abs(value)));
  const name = plain(one.name);
  return (
    <li class={off ? "off" : ""}>
      <div>
        <div class="score"><span class="muted">{place}</span><span>{one.score.toFixed(3)}</span></div>
        <div class="track"><div class="fill" style={{ width: `${100 * Math.min(1, Math.max(0, one.score))}%` }} /></div>
      </div>
      <div class="break">
        <div class="row spread">
          <div class="break"><strong class="name mono break">{name}</strong>{" "}
            {one.withheld !== null ? <span class="tag">{one.withheld}</span> : <span class="tag good">listed</span>}{" "}
            {pinned && <span class="tag">pinned</span>}</div>
          {label !== undefined && (
            <div class="row">
              <button type="button" class="quiet" aria-pressed={right} onClick={() => mark(one.name, right ? null : true)}>
                Right<span class="visually-hidden"> for {name}</span></button>
              <button type="button" class="quiet" aria-pressed={wrong} onClick={() => mark(one.name, wrong ? null : false)}>
                Wrong<span class="visually-hidden"> for {name}</span></button>
            </div>
          )}
        </div>
        <div class="small">{plain(one.reason)}</div>
        <div class="small muted break">{plain(one.description.split("\n")[0] ?? "").slice(0, 180)}</div>
        <div class="signals">
          {HEADLINES.filter(([signal]) => signal in one.signals).slice(0, 4).map(([signal, said]) => (
            <Signal key={signal} name={said} value={one.signals[signal] ?? 0} most={1} />
          ))}
        </div>
        <details class="small"><summary>All numbers<span class="visually-hidden"> of {name}</span></summary>
          <div class="signals">
            {signals.map(([signal, value]) => (
              <Signal key={signal} name={signal} value={value} most={most} />
            ))}
          </div>
          <p class="muted">probability {one.probability.toFixed(3)} · the ranker's own score {one.raw_score.toFixed(3)} · {number(one.tokens)} tokens</p>
        </details>
      </div>
    </li>
  );
}

const Signal = (props: { name: string; value: number; most: number }) => (
  <>
    <span>{props.name.replace(/_/g, " ")}</span>
    <div class="track" aria-hidden="true"><div class="fill" style={{ width: `${(100 * Math.abs(props.value)) / props.most}%` }} /></div>
    <span class="score">{props.value.toFixed(3)}</span>
  </>
);
