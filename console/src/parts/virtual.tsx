// A list of any length of which only what is seen is in the page; the arrow keys move the selection.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

interface Props<T> {
  label: string;
  items: T[];
  height: number; // of one item, in pixels
  id: (item: T) => string;
  selected: string | null;
  select: (item: T) => void;
  children: (item: T) => ComponentChildren;
}

const BEYOND = 6;

export function Virtual<T>({ label, items, height, id, selected, select, children }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(600);
  useEffect(() => {
    const there = box.current;
    if (there === null) return;
    const watch = new ResizeObserver(() => setRoom(there.clientHeight));
    watch.observe(there);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    // a shorter list may end above what was seen
    const there = box.current;
    if (there !== null) setTop(there.scrollTop);
  }, [items.length]);
  const first = Math.max(0, Math.floor(top / height) - BEYOND);
  const last = Math.min(items.length, Math.ceil((top + room) / height) + BEYOND);
  const at = selected === null ? -1 : items.findIndex((item) => id(item) === selected);
  const reveal = (place: number): void => {
    const there = box.current;
    if (there === null) return;
    if (place * height < there.scrollTop) there.scrollTop = place * height;
    if ((place + 1) * height > there.scrollTop + there.clientHeight) there.scrollTop = (place + 1) * height - there.clientHeight;
  };
  const there = at >= 0;
  useEffect(() => {
    if (there) reveal(at); // the one that a link names, when it has come
  }, [there]);
  const keys = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(room / height) - 1);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: items.length - 1 };
    const to = steps[event.key];
    if (to === undefined || items.length === 0) return;
    event.preventDefault();
    const place = Math.min(items.length - 1, Math.max(0, to));
    select(items[place] as T);
    reveal(place);
  };
  const seen = at >= first && at < last;
  return (
    <div class="virtual" ref={box} role="listbox" tabIndex={0} aria-label={label}
      aria-activedescendant={seen ? `item-${at}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)} onKeyDown={keys}>
      <div role="presentation" style={{ height: `${items.length * height}px` }}>
        {items.slice(first, last).map((item, offset) => {
          const place = first + offset;
          return (
            <div key={id(item)} id={`item-${place}`} class="item" role="option" aria-selected={place === at}
              aria-setsize={items.length} aria-posinset={place + 1}
              style={{ top: `${place * height}px`, height: `${height}px` }} onClick={() => select(item)}>
              {children(item)}
            </div>
          );
        })}
      </div>
    </div>
  );
}
