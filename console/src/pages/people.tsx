// Users, keys, packs and quotas: for administrators all, for a user its own.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, base, post } from "../api";
import type { Login, Me } from "../types";
import { Copy, Empty, Failure, Loading, number, Page, plain, useAnswer, words } from "../ui";

interface User { id: string; plan: string; is_active: boolean; created_at_ms: number }
interface Key { id: string; name: string; user: string | null; prefix: string; scopes: string[]; expires_at_ms: number | null; revoked_at_ms: number | null }
interface Pack { id: string; owner: string | null; title: string; description: string; servers: string[]; tools: string[] }
interface Installation { kind: string; value: string; is_active: boolean }
interface Quota { plan: string; queries_limit: number | null; current_month_usage: number; remaining: number | null; resets_at_s: number }

const AT_ONCE = 500;

/** A day where the reader is, as every time on these pages. */
const day = (atMs: number): string => new Date(atMs).toLocaleDateString("sv"); // 2026-12-31

/** Runs what changes something; its failure is told where it was asked for. */
function useChange(done: () => void): { problem: string | null; busy: boolean; run: (work: () => Promise<unknown>) => Promise<boolean> } {
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const run = async (work: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    setProblem(null);
    let good = true;
    try {
      await work();
    } catch (error) {
      setProblem(words(error));
      good = false;
    }
    setBusy(false);
    done();
    return good;
  };
  return { problem, busy, run };
}

export function People({ me }: { me: Me }) {
  const keys = me.features.api_keys || me.features.accounts;
  const own = me.user !== null;
  if (!keys)
    return (
      <Page title="People" lead="Users, keys, packs and quotas.">
        <Empty title="Accounts are off">With <code>accounts.enabled: true</code> users have packs and plans; with <code>security.api_keys: true</code> keys
          of the database are accepted.</Empty>
        <Logins />
      </Page>
    );
  return (
    <Page title="People" lead={me.admin ? "Who may use this gateway, with which keys, and what each sees." : "Your keys, packs and plan."}>
      {me.admin && <Users />}
      {(me.admin || own) && <Keys me={me} />}
      {me.features.accounts && (me.admin || own) && <Packs me={me} />}
      {me.features.accounts && own && <Standing />}
      <Logins />
      {!me.admin && !own && <Empty title="This credential belongs to no user">Log in with the key of a user to see what is yours.</Empty>}
    </Page>
  );
}

function Users() {
  const [after, setAfter] = useState("");
  const found = useAnswer<{ users: User[]; next: string | null }>(part("/v1/users", after));
  const { problem, busy, run } = useChange(found.reload);
  const [id, setId] = useState("");
  const [plan, setPlan] = useState("");
  const [sure, setSure] = useState<string | null>(null);
  return (
    <section class="panel" aria-label="Users">
      <h2 tabIndex={-1}>Users</h2>
      <form class="row end" onSubmit={(event) => {
        event.preventDefault();
        if (!busy) void run(() => post("/v1/users", { id: id.trim(), plan: plan.trim() || null })).then((good) => { if (good) setId(""); });
      }}>
        <label class="field">Id of a new user<input value={id} required maxLength={200} onInput={(event) => setId(event.currentTarget.value)} /></label>
        <label class="field">Plan (empty: the default)<input value={plan} onInput={(event) => setPlan(event.currentTarget.value)} /></label>
        <button aria-disabled={busy}>Make user</button>
      </form>
      <Failure error={problem} /><Failure error={found.error} retry={found.reload} />
      {found.data === null && found.loading && <Loading of="users" />}
      {found.data?.users.length === 0 && after === "" && <p class="muted">No user yet. Whoever logs in otherwise becomes one with the first key of its own.</p>}
      {!!found.data?.users.length && (
        <div class="scroll" tabIndex={0} role="region" aria-label="All users"><table>
          <thead><tr><th>User</th><th>Plan</th><th>Since</th><th>State</th><th>Change</th></tr></thead>
          <tbody>{found.data.users.map((user) => (
            <tr key={user.id}>
              <td class="break">{plain(user.id)}</td><td>{plain(user.plan)}</td><td class="nowrap">{day(user.created_at_ms)}</td>
              <td><span class={`tag ${user.is_active ? "good" : "warn"}`}>{user.is_active ? "active" : "off"}</span></td>
              <td><div class="row">
                <button type="button" class="quiet" onClick={() => void run(() => ask("PATCH", `/v1/users/${encodeURIComponent(user.id)}`, { is_active: !user.is_active }))}>
                  Switch {user.is_active ? "off" : "on"}<span class="visually-hidden"> {plain(user.id)}</span></button>
                <Sure what={`Delete ${plain(user.id)}`} word="Delete" asked={sure === user.id} ask={() => setSure(user.id)}
                  yes={() => { setSure(null); void run(() => ask("DELETE", `/v1/users/${encodeURIComponent(user.id)}`)); }} no={() => setSure(null)} />
              </div></td>
            </tr>))}
          </tbody>
        </table></div>
      )}
      <Turn of="users" after={after} next={found.data?.next} turn={setAfter} />
    </section>
  );
}

const part = (path: string, after: string) => `${path}?${new URLSearchParams({ limit: String(AT_ONCE), after })}`;

/** From part to part of a long list. */
function Turn(props: { of: string; after: string; next: string | null | undefined; turn: (after: string) => void }) {
  if (props.after === "" && !props.next) return null;
  return (
    <div class="row bar">
      <button type="button" disabled={props.after === ""} onClick={() => props.turn("")}>First {props.of}</button>
      <button type="button" disabled={!props.next} onClick={() => props.turn(props.next ?? "")}>More {props.of}</button>
    </div>
  );
}

/** The keyboard goes to the heading of a section of which something goes that has it. */
const toHeading = (from: Element | null): void => from?.closest("section")?.querySelector<HTMLElement>("h2")?.focus();

/** A button that asks once more, until Escape; the keyboard stays where it asks, and goes to the section's heading when the button is to go. */
function Sure(props: { what: string; word: string; asked: boolean; ask: () => void; yes: () => void; no: () => void }) {
  const box = useRef<HTMLSpanElement>(null);
  const before = useRef(props.asked);
  useLayoutEffect(() => { // at once: a second key may come before the next frame
    if (before.current !== props.asked) box.current?.querySelector<HTMLElement>("button:last-child")?.focus();
    before.current = props.asked;
  }, [props.asked]);
  const yes = (): void => {
    before.current = false;
    toHeading(box.current);
    props.yes();
  };
  return (
    <span class="row" ref={box} onKeyDown={(event) => { if (props.asked && event.key === "Escape") props.no(); }}>
      {props.asked
        ? <>
            <button type="button" class="quiet danger" onClick={yes} aria-label={`${props.what}, really`}>Really {props.word.toLowerCase()}</button>
            <button type="button" class="quiet" onClick={props.no} aria-label={`${props.what}: keep it`}>Keep</button>
          </>
        : <button type="button" class="quiet danger" onClick={props.ask} aria-label={props.what}>{props.word}</button>}
    </span>
  );
}

function Keys({ me }: { me: Me }) {
  const [after, setAfter] = useState("");
  const found = useAnswer<{ keys: Key[]; next: string | null }>(part("/v1/keys", after));
  const { problem, busy, run } = useChange(found.reload);
  const [name, setName] = useState("");
  const [user, setUser] = useState("");
  const [scopes, setScopes] = useState("");
  const [days, setDays] = useState("90");
  const [made, setMade] = useState<string | null>(null);
  const [sure, setSure] = useState<string | null>(null);
  const make = async (): Promise<void> => {
    const expires = days === "" ? null : Date.now() + Number(days) * 86_400_000;
    const body = { name: name.trim(), user: user.trim() || null, scopes: scopes.split(/[\s,]+/).filter(Boolean), expires_at_ms: expires };
    const answer = await post<{ key: string }>("/v1/keys", body);
    setMade(answer.key);
    setName("");
  };
  const state = (key: Key): string => (key.revoked_at_ms !== null ? "revoked" : key.expires_at_ms !== null && key.expires_at_ms < Date.now() ? "expired" : "valid");
  return (
    <section class="panel" aria-label="Keys">
      <h2 tabIndex={-1}>Keys</h2>
      {!me.features.api_keys && <div class="notice warn">Keys are not accepted: set <code>security.api_keys: true</code>.</div>}
      <form class="row end" onSubmit={(event) => { event.preventDefault(); if (!busy) void run(make); }}>
        <label class="field">Name of a new key<input value={name} required maxLength={200} onInput={(event) => setName(event.currentTarget.value)} /></label>
        {me.admin && <label class="field">User (empty: a service)<input value={user} onInput={(event) => setUser(event.currentTarget.value)} /></label>}
        <label class="field">Scopes<input value={scopes} placeholder="none" onInput={(event) => setScopes(event.currentTarget.value)} /></label>
        <label class="field">Days (empty: for ever)<input type="number" min="1" max="36500" value={days} onInput={(event) => setDays(event.currentTarget.value)} /></label>
        <button aria-disabled={busy}>Make key</button>
      </form>
      {made !== null && (
        <div class="notice good" role="status">This is the key. It is shown this once:{" "}
          <code class="break">{made}</code> <Copy text={made} what="the key" /> <button type="button" onClick={(event) => { toHeading(event.currentTarget); setMade(null); }}>Done</button></div>
      )}
      <Failure error={problem} /><Failure error={found.error} retry={found.reload} />
      {found.data === null && found.loading && <Loading of="keys" />}
      {found.data?.keys.length === 0 && after === "" && <p class="muted">No key yet.</p>}
      {!!found.data?.keys.length && (
        <div class="scroll" tabIndex={0} role="region" aria-label="All keys"><table>
          <thead><tr><th>Name</th><th>User</th><th>Begins with</th><th>Scopes</th><th>Until</th><th>State</th><th>Change</th></tr></thead>
          <tbody>{found.data.keys.map((key) => (
            <tr key={key.id}>
              <td class="break">{plain(key.name)}</td><td class="break">{key.user === null ? "–" : plain(key.user)}</td><td><code>{plain(key.prefix)}</code></td>
              <td class="break">{key.scopes.map(plain).join(" ") || "–"}</td><td class="nowrap">{key.expires_at_ms === null ? "–" : day(key.expires_at_ms)}</td>
              <td><span class={`tag ${state(key) === "valid" ? "good" : ""}`}>{state(key)}</span></td>
              <td>{key.revoked_at_ms === null && (
                <Sure what={`Revoke ${plain(key.name)}`} word="Revoke" asked={sure === key.id} ask={() => setSure(key.id)}
                  yes={() => { setSure(null); void run(() => ask("DELETE", `/v1/keys/${encodeURIComponent(key.id)}`)); }} no={() => setSure(null)} />)}</td>
            </tr>))}
          </tbody>
        </table></div>
      )}
      <Turn of="keys" after={after} next={found.data?.next} turn={setAfter} />
    </section>
  );
}

const listed = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

function Packs({ me }: { me: Me }) {
  const whose = me.user !== null;
  const [after, setAfter] = useState("");
  const packs = useAnswer<{ packs: Pack[]; next: string | null }>(part("/v1/packs", after));
  const mine = useAnswer<{ installations: Installation[] }>(whose ? "/v1/installations" : null);
  const { problem, busy, run } = useChange(() => { packs.reload(); mine.reload(); });
  const [title, setTitle] = useState("");
  const [servers, setServers] = useState("");
  const [tools, setTools] = useState("");
  const [sure, setSure] = useState<string | null>(null);
  return (
    <section class="panel" aria-label="Packs">
      <h2 tabIndex={-1}>Packs</h2>
      <p class="small muted">A user sees the tools of its active packs, servers and tools, and nothing else.
        {me.admin && <> For another user: <code>armory packs install PACK --user USER</code>.</>}</p>
      <form class="row end" onSubmit={(event) => {
        event.preventDefault();
        if (busy) return;
        const body = { title: title.trim(), servers: listed(servers), tools: listed(tools), shared: me.admin };
        void run(() => post("/v1/packs", body)).then((good) => { if (good) setTitle(""); });
      }}>
        <label class="field">Title of a new pack<input value={title} required maxLength={200} onInput={(event) => setTitle(event.currentTarget.value)} /></label>
        <label class="field">Servers<input value={servers} placeholder="time, notes" onInput={(event) => setServers(event.currentTarget.value)} /></label>
        <label class="field">Tools<input value={tools} placeholder="git__log" onInput={(event) => setTools(event.currentTarget.value)} /></label>
        <button aria-disabled={busy}>Make pack</button>
      </form>
      <Failure error={problem} /><Failure error={packs.error ?? mine.error} retry={() => { packs.reload(); mine.reload(); }} />
      {packs.data?.packs.length === 0 && after === "" && <p class="muted">No pack yet.</p>}
      {!!packs.data?.packs.length && (
        <div class="scroll" tabIndex={0} role="region" aria-label="All packs"><table>
          <thead><tr><th>Pack</th><th>Owner</th><th>Holds</th><th>Change</th></tr></thead>
          <tbody>{packs.data.packs.map((pack) => (
            <tr key={pack.id}>
              <td class="break">{plain(pack.title)} <code class="small">{plain(pack.id)}</code></td><td class="break">{pack.owner === null ? "everybody" : plain(pack.owner)}</td>
              <td class="break small">{[...pack.servers.map((key) => `all of ${plain(key)}`), ...pack.tools.map(plain)].join(", ") || "nothing"}</td>
              <td><div class="row">
                {whose && <button type="button" class="quiet" onClick={() => void run(() => post("/v2/track_installation", { pack_id: pack.id }))}>
                  Install<span class="visually-hidden"> {plain(pack.title)}</span></button>}
                {(me.admin || pack.owner === me.user) && (
                  <Sure what={`Delete ${plain(pack.title)}`} word="Delete" asked={sure === pack.id} ask={() => setSure(pack.id)}
                    yes={() => { setSure(null); void run(() => ask("DELETE", `/v1/packs/${encodeURIComponent(pack.id)}`)); }} no={() => setSure(null)} />)}
              </div></td>
            </tr>))}
          </tbody>
        </table></div>
      )}
      <Turn of="packs" after={after} next={packs.data?.next} turn={setAfter} />
      {whose && (
        <>
          <h3>What you have installed</h3>
          {mine.data?.installations.length === 0 && <p class="muted">Nothing, so you see no tool.</p>}
          <ul>{mine.data?.installations.map((one) => {
            const path = `/v1/installations/${encodeURIComponent(one.kind)}/${encodeURIComponent(one.value)}`;
            return (
              <li key={`${one.kind} ${one.value}`} class="break">{one.kind} <code>{plain(one.value)}</code>{" "}
                <button type="button" class="quiet" aria-pressed={one.is_active} onClick={() => void run(() => ask("PUT", path, { is_active: !one.is_active }))}>
                  active<span class="visually-hidden">: {plain(one.value)}</span></button>{" "}
                <button type="button" class="quiet" onClick={(event) => { toHeading(event.currentTarget); void run(() => ask("DELETE", path)); }}>Uninstall<span class="visually-hidden"> {plain(one.value)}</span></button>
              </li>);
          })}</ul>
        </>
      )}
    </section>
  );
}

/** Own accounts at upstreams; nothing where there is no such upstream. */
function Logins() {
  const found = useAnswer<{ logins: Login[] }>("/v1/logins");
  const { problem, busy, run } = useChange(found.reload);
  const [sure, setSure] = useState<string | null>(null);
  if (found.error === null && !found.data?.logins.length) return null;
  return (
    <section class="panel" aria-label="Upstream logins">
      <h2 tabIndex={-1}>Your accounts at upstreams</h2>
      <Failure error={problem} /><Failure error={found.error} retry={found.reload} />
      {!!found.data?.logins.length && (
        <div class="scroll" tabIndex={0} role="region" aria-label="All upstream logins"><table>
          <thead><tr><th>Upstream</th><th>State</th><th>Issuer</th><th>Scopes</th><th>Change</th></tr></thead>
          <tbody>{found.data.logins.map((one) => (
            <tr key={one.server}>
              <td class="break">{plain(one.server)}</td>
              <td><span class={`tag ${one.connected ? "good" : "warn"}`}>{one.connected ? "connected" : "not connected"}</span></td>
              <td class="break">{one.issuer === null ? "–" : plain(one.issuer)}</td><td class="break">{one.scopes.map(plain).join(" ") || "–"}</td>
              <td>{one.connected
                ? <Sure what={`Disconnect ${plain(one.server)}`} word="Disconnect" asked={sure === one.server} ask={() => setSure(one.server)} no={() => setSure(null)}
                    yes={() => { setSure(null); if (!busy) void run(() => ask("DELETE", `/v1/logins/${encodeURIComponent(one.server)}`)); }} />
                : <a href={`${base}/connect/${encodeURIComponent(one.server)}`}>Sign in<span class="visually-hidden"> at {plain(one.server)}</span></a>}</td>
            </tr>))}
          </tbody>
        </table></div>
      )}
    </section>
  );
}

function Standing() {
  const { data, error, reload } = useAnswer<Quota>("/v1/quota");
  return (
    <section class="panel" aria-label="Plan">
      <h2>Your plan</h2>
      <Failure error={error} retry={reload} />
      {data !== null && <p>{plain(data.plan)}: {number(data.current_month_usage)} {data.current_month_usage === 1 ? "query" : "queries"} this month
        {data.queries_limit === null ? ", without limit." : ` of ${number(data.queries_limit)}; the next month begins on ${new Date(data.resets_at_s * 1000).toISOString().slice(0, 10)} (UTC).`}</p>}
    </section>
  );
}
