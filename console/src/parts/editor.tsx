// A text with line numbers, in a plain text area: its keyboard, its undo and its screen reader are the browser's.

import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  text: string;
  wrong: Set<number>; // lines, from 1
  readOnly: boolean;
  describedBy: string;
  changed: (text: string) => void;
  moved: (row: number, column: number) => void; // of the cursor, from 0
}

export interface Handle {
  reveal: (line: number) => void; // from 1
  insert: (after: number, text: string) => void; // a new line behind a line, from 0
}

const AT_LEAST = 12;

export function TextEditor(props: Props & { handle: { current: Handle | null } }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = props.text.split("\n").length;
  const place = (): void => {
    const there = area.current;
    if (there === null) return;
    const before = there.value.slice(0, there.selectionStart);
    const row = before.split("\n").length - 1;
    props.moved(row, before.length - (before.lastIndexOf("\n") + 1));
  };
  const startOf = (line: number): number => {
    const before = (area.current?.value ?? "").split("\n").slice(0, line);
    return before.reduce((sum, one) => sum + one.length + 1, 0);
  };
  useEffect(() => {
    props.handle.current = {
      reveal: (line) => {
        const there = area.current;
        if (there === null) return;
        const start = startOf(line - 1);
        there.focus();
        there.setSelectionRange(start, Math.max(start, startOf(line) - 1));
        const height = there.scrollHeight / Math.max(1, there.value.split("\n").length);
        there.scrollTop = Math.max(0, (line - 4) * height);
        place();
      },
      insert: (after, text) => {
        const there = area.current;
        if (there === null) return;
        const end = Math.min(there.value.length, Math.max(0, startOf(after + 1) - 1));
        there.focus();
        there.setSelectionRange(end, end);
        write(there, `\n${text}`);
        place();
      },
    };
  });
  return (
    <div class="editor">
      <div class="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, at) => <div key={at} class={props.wrong.has(at + 1) ? "wrong" : ""}>{at + 1}</div>)}
      </div>
      <textarea ref={area} aria-label={props.label} spellcheck={false} autocapitalize="off" autocomplete="off" wrap="off" value={props.text}
        rows={Math.max(AT_LEAST, Math.min(34, lines + 1))} readOnly={props.readOnly} aria-invalid={props.wrong.size > 0} aria-describedby={props.describedBy}
        onInput={(event) => { props.changed(event.currentTarget.value); place(); }}
        onScroll={(event) => { if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop; }}
        onClick={place} onKeyUp={place} onFocus={place}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey || props.readOnly) return;
          const there = event.currentTarget;
          const line = there.value.slice(0, there.selectionStart).split("\n").pop() ?? "";
          const indent = /^\s*/.exec(line)?.[0] ?? "";
          event.preventDefault();
          write(there, `\n${indent}${/:\s*$/.test(line) ? "  " : ""}`);
        }} />
    </div>
  );
}

/** Type a text at the cursor, so that undo knows it. */
function write(area: HTMLTextAreaElement, text: string): void {
  if (!document.execCommand("insertText", false, text)) {
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
