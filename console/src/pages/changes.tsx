// Definitions that changed under their name: what changed, and taking them as good.

import { useState } from "preact/hooks";
import { post } from "../api";
import { Difference } from "../parts/difference";
import type { Me } from "../types";
import { Empty, Failure, Loading, Page, plain, toTop, useAnswer, words } from "../ui";

interface Change {
  tool: string;
  pinned: string;
  now: string;
  difference: string[];
}

export function Changes(_: { me: Me }) {
  const { data, error, loading, reload } = useAnswer<{ mode: string; changes: Change[] }>("/v1/changes", 10_000);
  return (
    <Page title="Changes" lead="Tools whose definition is not the one that was first seen. They are kept from everybody until somebody has read what changed.">
      <Failure error={error} retry={reload} />
      {data === null && loading && <Loading of="changes" />}
      {data?.mode === "off" && <Empty title="Pinning is off">With <code>security.pinning: block</code> a tool that changes under its name is withheld and shown here.</Empty>}
      {data?.mode === "warn" && <Empty title="Changes are logged, not withheld">With <code>security.pinning: block</code> they would wait here. The log has them as <code>tool_definition_changed</code>.</Empty>}
      {data?.mode === "block" && data.changes.length === 0 && <Empty title="Nothing has changed">Every tool is as it was when it was first seen, or was approved since.</Empty>}
      {data?.changes.map((change) => <One key={`${change.tool} ${change.now}`} change={change} done={reload} />)}
    </Page>
  );
}

function One({ change, done }: { change: Change; done: () => void }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const approve = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      await post(`/v1/changes/${encodeURIComponent(change.tool)}/approve`, { now: change.now });
      toTop();
      done();
    } catch (error) {
      setProblem(words(error));
    }
    setBusy(false);
  };
  return (
    <section class="panel" aria-label={plain(change.tool)}>
      <div class="row spread">
        <h2 class="mono break">{plain(change.tool)}</h2>
        <button type="button" class="primary" aria-disabled={busy} onClick={() => { if (!busy) void approve(); }}>
          Approve<span class="visually-hidden"> {plain(change.tool)}</span></button>
      </div>
      <p class="small muted">withheld · fingerprint was <code>{change.pinned.slice(0, 12)}</code>, is <code>{change.now.slice(0, 12)}</code></p>
      {change.difference.length > 0
        ? <Difference lines={change.difference} />
        : <p class="small">What it was is not known, only its fingerprint: read the server's own list before you approve.</p>}
      <Failure error={problem} />
    </section>
  );
}
