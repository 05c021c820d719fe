// armory.yaml as the gateway reads it: help and checks while it is edited, what a save would change, and the save.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, get, Refused } from "../api";
import { Difference, differenceOf } from "../parts/difference";
import { draft, keepDraft } from "../parts/draft";
import { type Handle, TextEditor } from "../parts/editor";
import { type Help, helpAt, type Schema } from "../parts/schema";
import type { Me } from "../types";
import { Copy, Empty, Failure, Loading, number, Page, plain, toTop, words } from "../ui";

interface Found { path: string; line: number | null; message: string }
interface Effects { applied: string[]; needs_restart: string[]; kept: string[]; restarted: string[]; added: string[]; removed: string[] }
interface File { path: string; text: string | null; tag: string; writable: boolean; reason: string | null; in_force: boolean; needs_restart: string[]; problems: Found[] }
interface Checked { problems: Found[]; effects: Effects | null }
interface Saved { tag: string; effects: Effects }

const PAUSE_MS = 600; // in typing, before the text is checked
const LOOK_MS = 1000;
const PATH = "/v1/configuration";

const unix = (text: string): string => text.replace(/\r\n?/g, "\n");
const stale = (error: unknown): boolean => error instanceof Refused && error.problem.status === 412;

export function Configuration(_: { me: Me }) {
  const [file, setFile] = useState<File | null>(null);
  const [schema, setSchema] = useState<Schema | null>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  const [effects, setEffects] = useState<Effects | null>(null); // null: not reviewed as it is now
  const [error, setError] = useState<string | null>(null);
  const [behind, setBehind] = useState(false);
  const [busy, setBusy] = useState(false);
  const [judged, setJudged] = useState<string | null>(null); // the text that `found` is of
  const [saved, setSaved] = useState<Effects | null>(null);
  const [at, setAt] = useState({ row: 0, column: 0 });
  const handle = useRef<Handle | null>(null);

  const load = useCallback(async (anew = false): Promise<void> => {
    try {
      const there = await get<File>(PATH);
      const shown = unix(there.text ?? "");
      const fits = draft()?.base === shown;
      if (anew && !fits) keepDraft(null);
      const kept = draft();
      setFile(there);
      setText(kept?.text ?? shown);
      setFound(kept === null ? there.problems : []);
      setBehind(kept !== null && !fits); // it is shown, to be copied, and cannot be saved
      setError(null);
    } catch (problem) {
      setError(words(problem));
    }
  }, []);
  useEffect(() => {
    void load();
    get<Schema>(`${PATH}/schema`).then(setSchema, () => undefined);
  }, [load]);

  const before = useMemo(() => unix(file?.text ?? ""), [file]);
  const dirty = file !== null && text !== before;
  const typed = (value: string): void => {
    setText(value);
    setEffects(null);
    setSaved(null);
    keepDraft(value !== before ? { base: draft()?.base ?? before, text: value } : null);
  };

  // as it is typed: what does not hold
  useEffect(() => {
    if (file === null || file.text === null) return;
    if (text === before) {
      setFound(file.problems);
      return;
    }
    if (behind) return;
    const end = new AbortController();
    const look = async (): Promise<void> => {
      try {
        setFound((await ask<Checked>("POST", `${PATH}/check`, { text }, end.signal, { "If-Match": `"${file.tag}"` })).problems);
        setJudged(text);
        setError(null);
      } catch (problem) {
        if (end.signal.aborted) return;
        if (stale(problem)) setBehind(true);
        else setError(words(problem));
      }
    };
    const timer = setTimeout(() => void look(), PAUSE_MS);
    return () => { clearTimeout(timer); end.abort(); };
  }, [text, file, before, behind]);

  // what lies there is in force when the gateway has read it
  const waits = file !== null && !file.in_force && file.needs_restart.length === 0 && file.problems.length === 0;
  useEffect(() => {
    if (!waits) return;
    const timer = setInterval(() => {
      get<File>(PATH).then((there) => {
        if (there.in_force) setFile((known) => (known !== null && known.tag === there.tag ? { ...known, in_force: true } : known));
      }, () => undefined);
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [waits]);
  useEffect(() => {
    if (!dirty) return;
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [dirty]);

  const attempt = async (act: (match: Record<string, string>) => Promise<void>): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await act({ "If-Match": `"${file?.tag ?? ""}"` });
    } catch (problem) {
      if (stale(problem)) setBehind(true);
      else {
        const more = problem instanceof Refused ? problem.problem.problems : undefined;
        if (more) setFound(more as Found[]);
        setError(words(problem));
      }
    }
    setBusy(false);
  };
  const review = (): Promise<void> => attempt(async (match) => {
    const done = await ask<Checked>("POST", `${PATH}/check`, { text, effects: true }, undefined, match);
    setFound(done.problems);
    setJudged(text);
    setEffects(done.effects);
  });
  const save = (): Promise<void> => attempt(async (match) => {
    const done = await ask<Saved>("PUT", PATH, { text }, undefined, match);
    keepDraft(null);
    toTop();
    setEffects(null);
    await load();
    setSaved(done.effects);
  });
  const again = (): void => {
    toTop();
    setEffects(null);
    setSaved(null);
    void load(true);
  };
  const standing = dirty && judged !== text ? (behind || error !== null ? "Not checked." : "Checking…")
    : found.length > 0 ? `${number(found.length)} ${found.length === 1 ? "problem" : "problems"}` : dirty ? "It holds." : "As it is in the file.";
  const help = useMemo(() => (schema === null ? null : helpAt(schema, text.split("\n"), at.row, at.column)), [schema, text, at]);
  const lead = file === null ? "" : <><code>{plain(file.path)}</code>, its secrets hidden: <code>{"<hidden-1>"}</code> stands for what is in the file there.</>;
  return (
    <Page title="Configuration" lead={lead}>
      <Failure error={error} retry={file === null ? () => void load() : undefined} />
      {file === null && error === null && <Loading of="the configuration" />}
      {behind && (
        <div class="notice warn" role="alert">The file has changed since it was read here; what you typed cannot be saved over it. Copy it, if you want to keep it.{" "}
          <button type="button" onClick={again}>Read it again</button></div>
      )}
      {saved !== null && file !== null && (
        <div class="notice good" role="status">Saved. {file.in_force ? "The gateway goes by it." : file.needs_restart.length > 0 ? "The gateway has to be restarted to go by all of it." : "The gateway reads it within two seconds."} <Words effects={saved} /></div>
      )}
      {file !== null && !file.writable && file.reason !== null && (
        <div class="notice" role="note">Not to be changed here: {plain(file.reason)}. What you type is checked; copy it from here, and put in what is hidden.</div>
      )}
      {file !== null && saved === null && !file.in_force && file.problems.length === 0 && (
        <div class="notice warn" role="status">{file.needs_restart.length > 0
          ? <>The gateway has to be restarted to go by all of it: {file.needs_restart.map(plain).join(", ")}.</>
          : "The gateway has not read this version of the file yet."}</div>
      )}
      {file !== null && file.text === null && (
        <><Problems found={file.problems} reveal={() => undefined} />
          <Empty title="The file cannot be shown">It cannot be read as YAML, so nobody knows what in it is secret. Mend it where it lies.</Empty></>
      )}
      {file !== null && file.text !== null && (
        <>
          <div class="split config">
            <div>
              <TextEditor label="armory.yaml" text={text} readOnly={busy} wrong={new Set(found.flatMap((one) => (one.line === null ? [] : [one.line])))}
                describedBy="problems" changed={typed} moved={(row, column) => setAt({ row, column })} handle={handle} />
              <div class="row bar">
                <button type="button" class="primary" disabled={!dirty || behind} aria-disabled={busy} onClick={() => { if (!busy) void review(); }}>Review</button>
                <button type="button" aria-disabled={!dirty || busy} onClick={() => {
                  if (!dirty || busy) return;
                  typed(before);
                  if (behind) again();
                }}>Undo all</button>
                <Copy text={text} what="the text" />
                <span class="small muted" role="status">{standing}</span>
              </div>
              <div id="problems"><Problems found={found} reveal={(line) => handle.current?.reveal(line)} /></div>
            </div>
            <Explained help={help} insert={(name) => help !== null && handle.current?.insert(help.after, `${" ".repeat(help.indent)}${name}: `)} />
          </div>
          {effects !== null && found.length === 0 && (
            <section class="panel" aria-label="Review">
              <h2>What changes</h2>
              <Difference lines={differenceOf(before, text)} />
              <p><Words effects={effects} /></p>
              {file.writable
                ? <button type="button" class="primary" disabled={behind} aria-disabled={busy} onClick={() => { if (!busy) void save(); }}>Save</button>
                : <p class="small muted">It cannot be saved from here.</p>}
            </section>
          )}
        </>
      )}
    </Page>
  );
}

function Problems({ found, reveal }: { found: Found[]; reveal: (line: number) => void }) {
  if (found.length === 0) return null;
  return (
    <div class="notice bad" role="alert">
      <ul class="problems">{found.map((one, place) => (
        <li key={place} class="break">
          {one.line !== null && <button type="button" class="quiet" onClick={() => reveal(one.line ?? 1)}>line {one.line}</button>}{" "}
          {one.path !== "" && <><code>{plain(one.path)}</code>: </>}{plain(one.message)}
        </li>))}
      </ul>
    </div>
  );
}

function Words({ effects }: { effects: Effects }) {
  const said: [string, string[]][] = [
    ["In force at once", effects.applied], ["After a restart", effects.needs_restart], ["Upstreams added", effects.added],
    ["started anew", effects.restarted], ["removed", effects.removed],
  ];
  const shown = said.filter(([, names]) => names.length > 0);
  if (shown.length === 0) return <>Nothing changes for the gateway.</>;
  return <>{shown.map(([what, names]) => `${what}: ${names.map(plain).join(", ")}`).join("; ")}.</>;
}

/** A description, what stands in backticks being code. */
const Prose = ({ text }: { text: string }) => <>{text.split("`").map((part, place) => (place % 2 ? <code key={place}>{plain(part)}</code> : plain(part)))}</>;

function Explained({ help, insert }: { help: Help | null; insert: (name: string) => void }) {
  const missing = help?.keys.filter((key) => !key.there) ?? [];
  return (
    <aside class="panel help" aria-label="Help for the place of the cursor">
      {help === null
        ? <p class="muted">Nothing is known about this place.</p>
        : <>
            <h2 class="mono break">{help.path.map(plain).join(".") || "armory.yaml"}</h2>
            {help.description !== "" && <p><Prose text={help.description} /></p>}
            <p class="small muted">{[help.kind, help.choices.length > 0 ? `one of ${help.choices.join(", ")}` : "", help.preset !== null ? `default ${help.preset}` : ""]
              .filter((part) => part !== "").map(plain).join(" · ")}</p>
            {missing.length > 0 && (
              <><h3>{help.open ? "Keys that can be put in" : "Keys that it may have"}</h3>
                <ul class="keys" tabIndex={0} aria-label={help.open ? "Keys that can be put in" : "Keys that it may have"}>{missing.map((key) => (
                  <li key={key.name}>{help.open
                    ? <button type="button" class="quiet mono" onClick={() => insert(key.name)}>{plain(key.name)}</button>
                    : <code>{plain(key.name)}</code>}{" "}
                    <span class="small muted"><Prose text={key.description} /></span></li>))}
                </ul></>
            )}
          </>}
    </aside>
  );
}
