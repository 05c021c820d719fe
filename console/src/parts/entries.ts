// The latest entries of the gateway's activity, asked for once and then only what is new. Behind
// one address there may be several replicas, each with entries and numbers of its own.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import type { ActivityEntry } from "../types";
import { words } from "../ui";

interface Answer {
  process: string;
  last: number;
  entries: Omit<ActivityEntry, "process">[];
}

const PROCESSES = 20; // that are told apart

export interface Entries {
  entries: ActivityEntry[] | null;
  error: string | null;
}

/** The latest `kept` entries, newest first; new ones every `everyMs` while `live` and looked at. */
export function useEntries(kept: number, everyMs: number, live = true): Entries {
  const [entries, setEntries] = useState<ActivityEntry[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const last = useRef(new Map<string, number>());
  const known = useRef(false);
  useEffect(() => {
    const end = new AbortController();
    let timer = 0;
    const look = async (): Promise<void> => {
      if (!document.hidden && (live || !known.current)) {
        try {
          const seen = [...last.current].map(([process, number]) => `${process}:${number}`).join(",");
          const found = await get<Answer>(`/v1/activity?limit=${kept}&seen=${encodeURIComponent(seen)}`, end.signal);
          const more = found.entries.map((entry) => ({ ...entry, process: found.process }));
          const first = !last.current.delete(found.process);
          last.current.set(found.process, found.last); // the latest to answer stands last
          const oldest = [...last.current.keys()][0];
          if (last.current.size > PROCESSES && oldest !== undefined) last.current.delete(oldest);
          if (!known.current || more.length > 0)
            setEntries((before) => {
              const others = (before ?? []).filter((entry) => !first || entry.process !== found.process);
              return [...more, ...others].sort((a, b) => b.at_ms - a.at_ms).slice(0, kept);
            });
          known.current = true;
          setError(null);
        } catch (problem) {
          if (end.signal.aborted) return;
          setError(words(problem));
        }
      }
      if (!end.signal.aborted) timer = window.setTimeout(() => void look(), everyMs);
    };
    void look();
    return () => { end.abort(); clearTimeout(timer); };
  }, [kept, everyMs, live]);
  return { entries, error };
}
