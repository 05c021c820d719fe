// The latest entries of the gateway's activity, asked for once and then only what is new.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import type { ActivityEntry } from "../types";
import { words } from "../ui";

interface Answer {
  last: number;
  entries: ActivityEntry[];
}

export interface Entries {
  entries: ActivityEntry[] | null;
  error: string | null;
}

/** The latest `kept` entries, newest first; new ones every `everyMs` while `live` and looked at. */
export function useEntries(kept: number, everyMs: number, live = true): Entries {
  const [entries, setEntries] = useState<ActivityEntry[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const last = useRef(0);
  const known = useRef(false);
  useEffect(() => {
    const end = new AbortController();
    let timer = 0;
    const look = async (): Promise<void> => {
      if (!document.hidden && (live || !known.current)) {
        try {
          const found = await get<Answer>(`/v1/activity?after=${last.current}&limit=${kept}`, end.signal);
          // numbers go on when the gateway is started again, unless its clock was put back
          const anew = found.last < last.current;
          last.current = anew ? 0 : found.last;
          if (anew || !known.current || found.entries.length > 0)
            setEntries((before) => (anew ? [] : [...found.entries, ...(before ?? [])].slice(0, kept)));
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
