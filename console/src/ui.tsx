// The small parts that pages are made of.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Refused } from "./api";

export const words = (error: unknown): string =>
  error instanceof Refused ? error.message : error instanceof Error ? error.message : String(error);

export interface Loaded<T> {
  data: T | null;
  error: string | null;
  loading: boolean;
  reload: () => void;
}

/** One answer of the API, asked again every `everyMs` while the page is looked at. */
export function useAnswer<T>(path: string | null, everyMs = 0, asked: (path: string, signal: AbortSignal) => Promise<T> = get): Loaded<T> {
  const [data, setData] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [loading, setLoading] = useState(path !== null);
  const [turn, setTurn] = useState(0);
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (path === null) {
      setData(null);
      setLoading(false);
      return;
    }
    if (shown.current !== path) {
      setData(null);
      setError(null);
    }
    shown.current = path;
    const end = new AbortController();
    let timer = 0;
    let first = true; // which a tab in the background is told, too: nothing asks again there
    const look = async (): Promise<void> => {
      if (first || !document.hidden) {
        first = false;
        try {
          const found = await asked(path, end.signal);
          if (end.signal.aborted) return;
          setData(found);
          setError(null);
        } catch (problem) {
          if (end.signal.aborted) return;
          setError(words(problem));
        }
        setLoading(false);
      }
      if (everyMs > 0 && !end.signal.aborted) timer = window.setTimeout(() => void look(), everyMs);
    };
    setLoading(true);
    void look();
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs, asked, turn]);
  const reload = useCallback(() => setTurn((value) => value + 1), []);
  return { data, error, loading, reload };
}

export function Page(props: { title: string; lead?: ComponentChildren; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${props.title} · Armory console`;
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [props.title]);
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>{props.title}</h1>
      <p class="lead">{props.lead}</p>
      {props.children}
    </>
  );
}

/** The keyboard goes to the page's heading when what has it is to go. */
export const toTop = (): void => document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });

export function Failure(props: { error: string | null; retry?: () => void }) {
  if (props.error === null) return null;
  return (
    <div class="notice bad" role="alert">
      {plain(props.error)}
      {props.retry && <> <button type="button" class="quiet" onClick={props.retry}>Try again</button></>}
    </div>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty panel">
      <strong>{props.title}</strong>
      {props.children}
    </div>
  );
}

export function Loading(props: { of: string }) {
  return <p class="muted" role="status">Loading {props.of}…</p>;
}

const KINDS: Record<string, string> = { ready: "good", down: "bad", login_required: "warn", connecting: "warn" };
export const State = (props: { state: string }) => (
  <span class={`tag ${KINDS[props.state] ?? ""}`}>{props.state.replace("_", " ")}</span>
);

export const number = (value: number): string => value.toLocaleString("en");
export const counted = (count: number, one: string, many: string): string => `${number(count)} ${count === 1 ? one : many}`;
export const share = (part: number, whole: number): string => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");
export const ms = (value: number): string =>
  value >= 10_000 ? `${(value / 1000).toFixed(1)} s` : value >= 100 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`;

export function span(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** When it was: a time of today, or a date and a time. */
export function clock(atMs: number): string {
  const at = new Date(atMs);
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString("en-GB") : at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

const HIDDEN = "[\\p{Cc}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029\\ufff9-\\ufffb]";
/** What is seen by its work: joiners where Arabic, Indic scripts and emoji have them. */
const SEEN = [
  "[\\t\\n\\ufe0e\\ufe0f]",
  "(?<=\\p{Script=Arabic})\\u200c\\p{Script=Arabic}",
  "(?<=[\\u094d\\u09cd\\u0a4d\\u0acd\\u0b4d\\u0bcd\\u0c4d\\u0ccd\\u0d4d\\u0dca])[\\u200c\\u200d]", // behind a virama
  "(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f])\\u200d\\p{Extended_Pictographic}",
].join("|");
const SPELLED = new RegExp(`(?!${SEEN})${HIDDEN}`, "gu");

/** Text that shows what hides in it: control and invisible characters are spelled out. */
export function plain(text: string): string {
  return text.replace(SPELLED, (char) =>
    `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

export function Copy(props: { text: string; what: string }) {
  const [said, setSaid] = useState("Copy");
  const copy = async (): Promise<void> => {
    let done = true;
    try {
      await navigator.clipboard.writeText(props.text);
    } catch {
      done = copied(props.text); // over plain HTTP a page has no clipboard
    }
    setSaid(done ? "Copied" : "Not copied");
    setTimeout(() => setSaid("Copy"), 2000);
  };
  return (
    <button type="button" onClick={() => void copy()} aria-label={`Copy ${props.what}`}>
      <span aria-live="polite">{said}</span>
    </button>
  );
}

/** Copies by selecting; whether it could. */
function copied(text: string): boolean {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.className = "visually-hidden";
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}
