// The same question as a client would carry it: in the URL, in headers, in `_meta`, over REST.

import { base } from "../api";
import { Copy, plain } from "../ui";

interface Props { queries: string[]; endpoint: string; ranker: string; threshold: number; top_k: number; login: boolean }

export function Carriers({ queries, endpoint, ranker, threshold, top_k, login }: Props) {
  const url = `${base}/mcp${endpoint === "" ? "" : `/${endpoint}`}`;
  const asked = new URLSearchParams(queries.map((query) => ["query", query]));
  const given = { threshold: String(threshold), top_k: String(top_k), ranker };
  for (const [name, value] of Object.entries(given)) asked.set(name, value);
  const body = JSON.stringify({ queries, endpoint, threshold, top_k, ranker }).replaceAll("'", "'\\''");
  const credential = login ? ' -H "Authorization: Bearer $ARMORY_TOKEN"' : "";
  const ways: [string, string][] = [
    ["The URL", `${url}?${asked}`],
    ["Headers", `X-Armory-Query: ${queries.map(encodeURIComponent).join(", ")}\nX-Armory-Threshold: ${given.threshold}\nX-Armory-Top-K: ${given.top_k}\nX-Armory-Ranker: ${ranker}`],
    ["_meta of tools/list", JSON.stringify({ "dev.armory/query": queries.length === 1 ? queries[0] : queries, "dev.armory/threshold": threshold, "dev.armory/top_k": top_k, "dev.armory/ranker": ranker }, null, 2)],
    ["REST", `curl ${base}/v1/search${credential} -H "Content-Type: application/json" \\\n  -d '${body}'`],
  ];
  return (
    <details class="small"><summary>As a client asks it</summary>
      {ways.map(([name, text]) => (
        <div key={name}><div class="row spread"><strong>{name}</strong><Copy text={text} what={name} /></div><pre tabIndex={0}>{plain(text)}</pre></div>))}
    </details>
  );
}
