// A unified difference, line by line; the signs say what the colours say.

import { plain } from "../ui";

const kind = (line: string): string => (line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : line.startsWith("@@") ? "at" : "");

export const Difference = ({ lines }: { lines: string[] }) => (
  <div class="diff" tabIndex={0} role="region" aria-label="Difference">
    {lines.map((line, place) => <div key={place} class={kind(line)}>{plain(line) || " "}</div>)}
  </div>
);

const MOST_CELLS = 4_000_000;
const AROUND = 2;

/** Lines of a difference of two texts, those that stayed left out but for two around each change. */
export function differenceOf(before: string, after: string): string[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const left = a.slice(head, a.length - tail);
  const right = b.slice(head, b.length - tail);
  if (left.length === 0 && right.length === 0) return [];
  if (left.length * right.length > MOST_CELLS) // too much to compare: the one for the other
    return [`@@ line ${head + 1} @@`, ...left.map((line) => `-${line}`), ...right.map((line) => `+${line}`)];
  // the longest common part of what is left, line by line
  const long: number[][] = Array.from({ length: left.length + 1 }, () => new Array<number>(right.length + 1).fill(0));
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      (long[i] as number[])[j] = left[i] === right[j] ? (long[i + 1]?.[j + 1] ?? 0) + 1 : Math.max(long[i + 1]?.[j] ?? 0, long[i]?.[j + 1] ?? 0);
  const lines = [`@@ line ${head + 1} @@`, ...a.slice(Math.max(0, head - 2), head).map((line) => ` ${line}`)];
  for (let i = 0, j = 0; i < left.length || j < right.length; )
    if (i < left.length && j < right.length && left[i] === right[j]) { lines.push(` ${left[i]}`); i++; j++; }
    else if (i < left.length && (j >= right.length || (long[i + 1]?.[j] ?? 0) >= (long[i]?.[j + 1] ?? 0))) lines.push(`-${left[i++]}`);
    else lines.push(`+${right[j++]}`);
  return shortened([...lines, ...a.slice(a.length - tail, a.length - tail + 2).map((line) => ` ${line}`)]);
}

/** Without the middle of long runs of lines that stayed. */
function shortened(lines: string[]): string[] {
  const found: string[] = [];
  for (let at = 0; at < lines.length; ) {
    let end = at;
    while (end < lines.length && lines[end]?.startsWith(" ")) end++;
    if (end - at > 2 * AROUND + 1) found.push(...lines.slice(at, at + AROUND), `@@ ${end - at - 2 * AROUND} lines as before @@`, ...lines.slice(end - AROUND, end));
    else found.push(...lines.slice(at, end));
    if (end < lines.length) found.push(lines[end] as string);
    at = end + 1;
  }
  return found;
}
