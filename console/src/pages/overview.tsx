// What is up, what is not and why, and what goes on.

import { useMemo, useRef, useState } from "preact/hooks";
import { base, post } from "../api";
import { useEntries } from "../parts/entries";
import type { ActivityEntry, Login, Me, Upstream } from "../types";
import { counted, Empty, Failure, Loading, ms, number, Page, plain, share, span, State, useAnswer, words } from "../ui";

const POLL_MS = 4000;
const KEPT = 1000;
const AT_ONCE = 10; // upstreams that are not ready, by name
const HEARD_MS = 60_000; // so long what another replica has said may still be so

interface States {
  process: string | null;
  upstreams: Upstream[];
}

/** What other replicas have said lately: each has its own sessions, and any of them may answer. */
function useOthers(latest: States | null): Upstream[][] {
  const heard = useRef(new Map<string, { at: number; upstreams: Upstream[] }>());
  return useMemo(() => {
    if (latest?.process == null) return [];
    const now = Date.now();
    for (const [process, one] of heard.current) if (now - one.at > HEARD_MS) heard.current.delete(process);
    heard.current.set(latest.process, { at: now, upstreams: latest.upstreams });
    return [...heard.current].filter(([process]) => process !== latest.process).map(([, one]) => one.upstreams);
  }, [latest]);
}

interface Catalog {
  tools: number;
  prompts: number;
  resources: number;
  version: number;
}

export function Overview({ me }: { me: Me }) {
  const upstreams = useAnswer<States>("/v1/upstreams", POLL_MS);
  const others = useOthers(upstreams.data);
  const catalog = useAnswer<Catalog>("/v1/catalog", POLL_MS);
  const activity = useEntries(KEPT, POLL_MS);
  const logins = useAnswer<{ logins: Login[] }>("/v1/logins");
  const wanted = new Set((logins.data?.logins ?? []).filter((one) => !one.connected).map((one) => one.server));
  const list = upstreams.data?.upstreams ?? [];
  const away = list.filter((one) => one.state !== "ready");
  const elsewhere = (server: string): Upstream[] => others.flatMap((seen) => seen.filter((one) => one.server === server));
  const entries = activity.entries ?? [];
  const known = (count: number): string => (activity.entries === null ? "…" : number(count));
  const calls = entries.filter((entry) => entry.kind === "call");
  const failed = calls.filter((entry) => entry.ok === false).length;
  const saved = entries.reduce((sum, entry) => sum + entry.saved_tokens, 0);
  const whose = me.admin ? "of the latest 1,000 events" : "of your latest 1,000 events";
  return (
    <Page title="Overview" lead="What this gateway serves, what is not up, and why.">
      {away.length > 0 && (
        <div class="notice warn" role="status">
          {away.length === 1 ? "One upstream is" : `${away.length} upstreams are`} not ready:{" "}
          {named(away.slice(0, AT_ONCE))}{away.length > AT_ONCE ? `, and ${away.length - AT_ONCE} more` : ""}.
          Tools that were listed before stay listed.
          {away.length > AT_ONCE && <details class="small"><summary>The others</summary>{named(away.slice(AT_ONCE))}</details>}
        </div>
      )}
      <dl class="figures">
        <Figure name="Upstreams ready" value={upstreams.data ? `${list.length - away.length} of ${list.length}` : "…"} />
        <Figure name="Tools" value={catalog.data ? number(catalog.data.tools) : "…"}
          more={catalog.data ? `${counted(catalog.data.prompts, "prompt", "prompts")}, ${counted(catalog.data.resources, "resource", "resources")}` : ""} />
        <Figure name="Calls" value={known(calls.length)} more={`${share(failed, calls.length)} failed, ${whose}`} />
        <Figure name="Queries" value={known(entries.length - calls.length)} more={whose} />
        <Figure name="Tokens saved" value={known(saved)} more="by listings that answer a query" />
      </dl>
      <Failure error={upstreams.error ?? catalog.error ?? activity.error} retry={() => {
        upstreams.reload();
        catalog.reload();
      }} />
      <h2>Upstreams</h2>
      {me.admin && (me.features.replicas || others.length > 0) && (
        <p class="small muted">As the replica sees them that answered last{others.length > 0 && <>; {number(others.length + 1)} have
          answered within a minute</>}. A restart reaches all replicas.</p>
      )}
      {upstreams.data === null && upstreams.loading && <Loading of="upstreams" />}
      {upstreams.data !== null && list.length === 0 && (
        <Empty title="No upstream">
          {me.admin
            ? <>Add one under <code>upstreams</code> in <code>armory.yaml</code>, or take those of another client: <code>armory import
              FILE</code>. What is saved there is taken over by itself.</>
            : <>None is configured yet, or none that you may see anything of. An administrator adds them under <code>upstreams</code> in <code>armory.yaml</code>,
                decides under <code>security.policies</code>, or gives you a pack.
                {me.method === "anonymous" && <> You are not logged in.</>}</>}
        </Empty>
      )}
      {list.map((one) => <UpstreamPanel key={one.server} one={one} me={me} calls={calls} elsewhere={elsewhere(one.server)} changed={upstreams.reload} signIn={wanted.has(one.server)} />)}
    </Page>
  );
}

const named = (upstreams: Upstream[]): string => upstreams.map((one) => `${plain(one.server)} (${one.state.replace("_", " ")})`).join(", ");

const Figure = (props: { name: string; value: string; more?: string }) => (
  <div class="figure"><dt>{props.name}</dt><dd>{props.value}<small>{props.more}</small></dd></div>
);

function UpstreamPanel(props: { one: Upstream; me: Me; calls: ActivityEntry[]; elsewhere: Upstream[]; changed: () => void; signIn: boolean }) {
  const { one, me } = props;
  const [logs, setLogs] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const mine = props.calls.filter((entry) => entry.server === one.server);
  const times = mine.map((entry) => entry.ms).sort((a, b) => a - b);
  const bad = mine.filter((entry) => entry.ok === false).length;
  const restart = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      await post(`/v1/upstreams/${encodeURIComponent(one.server)}/restart`, undefined);
      props.changed();
    } catch (error) {
      setProblem(words(error));
    }
    setBusy(false);
  };
  return (
    <section class="panel" aria-label={`Upstream ${plain(one.server)}`}>
      <div class="row spread">
        <div class="row break"><h3 class="break">{plain(one.server)}</h3> <State state={one.state} />
          <span class="muted small">for {span(one.since_s)}</span></div>
        {me.admin && (
          <div class="row">
            <button type="button" aria-expanded={logs} onClick={() => setLogs(!logs)}>
              Standard error<span class="visually-hidden"> of {plain(one.server)}</span></button>
            {me.features.restart && (
              <button type="button" aria-disabled={busy} onClick={() => { if (!busy) void restart(); }}>
                {busy ? "Restarting…" : "Restart"}<span class="visually-hidden"> {plain(one.server)}</span></button>
            )}
          </div>
        )}
      </div>
      <p class="small muted">
        {counted(one.tools, "tool", "tools")} · {one.transport || "transport not known yet"}
        {one.protocol_version && <> · MCP {one.protocol_version}</>}
        {(one.state === "ready" || one.uptime < 1) && <> · up {share(one.uptime, 1)} of the time</>}
        {one.sessions !== undefined && <> · {one.sessions} {one.sessions === 1 ? "session" : "sessions"}, {one.in_flight} in flight
          {one.queued ? `, ${one.queued} waiting` : ""}</>}
        {one.breaker !== undefined && one.breaker !== "closed" && <> · <span class="tag warn">breaker {one.breaker.replace("_", " ")}</span></>}
        {one.attempts !== undefined && one.attempts > 1 && <> · {one.attempts} attempts to connect</>}
        {!!one.restarts && <> · lost and connected anew {one.restarts} {one.restarts === 1 ? "time" : "times"}</>}
        {times.length > 0 && <> · p50 {ms(times[times.length >> 1] ?? 0)}, {share(bad, mine.length)} of {mine.length} calls failed</>}
      </p>
      {props.elsewhere.filter((other) => other.state !== one.state).map((other, place) => (
        <p key={place} class="small">At another replica: <State state={other.state} /> {other.error && plain(other.error)}</p>
      ))}
      {one.awaited && <p class="small">{plain(one.awaited)}</p>}
      {one.error && <pre>{plain(one.error)}</pre>}
      {one.state === "login_required" && me.admin && (
        <p class="small">It wants a person to log in: run <code>armory login {plain(one.server)}</code> on the gateway's machine.</p>
      )}
      {!!one.dropped_count && (
        <details class="small"><summary>{one.dropped_count} unusable {one.dropped_count === 1 ? "entry was" : "entries were"} left out of its lists</summary>
          <ul>{one.dropped?.map((entry, place) => <li key={place} class="break">{entry.list} {plain(entry.entry)}: {plain(entry.reason)}</li>)}</ul>
        </details>
      )}
      {props.signIn && <p class="small">You have no account connected there: <a href={`${base}/connect/${encodeURIComponent(one.server)}`}>sign in<span class="visually-hidden"> at {plain(one.server)}</span></a>.</p>}
      <Failure error={problem} />
      {logs && <Stderr server={one.server} />}
    </section>
  );
}

function Stderr({ server }: { server: string }) {
  const found = useAnswer<{ lines: string[] }>(`/v1/upstreams/${encodeURIComponent(server)}/logs`, POLL_MS);
  if (found.error !== null) return <Failure error={found.error} retry={found.reload} />;
  if (found.data === null) return <Loading of="standard error" />;
  if (found.data.lines.length === 0) return <p class="muted">It has written nothing to standard error.</p>;
  return <pre tabIndex={0} role="region" aria-label={`Standard error of ${plain(server)}`}>{found.data.lines.slice(-200).map(plain).join("\n")}</pre>;
}
