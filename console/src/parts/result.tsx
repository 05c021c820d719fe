// What a call gave. All of it is text but images of four kinds: markup in it is never read as such.

import { ms, number, plain } from "../ui";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export interface Called {
  result: Record<string, unknown> | null;
  error: Record<string, unknown> | null;
  took_ms: number;
  bytes: number;
}

const pretty = (value: unknown): string => plain(JSON.stringify(value, null, 2) ?? "");

export function Result({ called }: { called: Called }) {
  const { result, error } = called;
  const failed = error !== null || result?.["isError"] === true;
  const content = Array.isArray(result?.["content"]) ? (result["content"] as unknown[]) : [];
  const structured = result?.["structuredContent"];
  return (
    <section aria-label="Result" aria-live="polite">
      <p><span class={`tag ${failed ? "bad" : "good"}`}>{failed ? "failed" : "done"}</span>{" "}
        <span class="small muted">{ms(called.took_ms)} · {number(called.bytes)} bytes, about {number(Math.ceil(called.bytes / 4))} tokens</span></p>
      {error !== null && <pre tabIndex={0}>{pretty(error)}</pre>}
      {content.map((block, place) => <Block key={place} block={block} />)}
      {structured !== undefined && <><h3>Structured content</h3><pre tabIndex={0}>{pretty(structured)}</pre></>}
      {result !== null && <details class="small"><summary>The whole result in JSON</summary><pre tabIndex={0}>{pretty(result)}</pre></details>}
    </section>
  );
}

function Block({ block }: { block: unknown }) {
  const known = (typeof block === "object" && block !== null ? block : {}) as Record<string, unknown>;
  const { type, text, data, mimeType } = known;
  if (type === "text" && typeof text === "string") return <pre tabIndex={0}>{plain(text)}</pre>;
  if (type === "image" && typeof data === "string" && typeof mimeType === "string" && IMAGES.has(mimeType) && BASE64.test(data))
    return <img class="image" src={`data:${mimeType};base64,${data}`} alt="Image in the result" />;
  return <pre tabIndex={0}>{pretty(block).slice(0, 20_000)}</pre>;
}
