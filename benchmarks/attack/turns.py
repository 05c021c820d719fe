"""A gateway whose long turns of the event loop are noted in a file: its first argument.

Owns: CPU time of the loop's thread in each callback, and the stacks of those that take long. CPU
time does not depend on what else runs on the machine. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

LONG_S = 0.1
"""A turn from which on it is noted, in seconds of the thread's CPU time."""
SAMPLE_S = 0.02
_DEPTH = 12


class Turns:
    """Notes long turns.

    Args:
        file: written every few seconds: how many turns were long, the longest, and their stacks.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
        self._began: float | None = None
        self._longest: list[tuple[float, str]] = []
        self._count = 0
        self._stacks: Counter[str] = Counter()

    def start(self) -> None:
        """Watch the event loop of the main thread from now on."""
        run = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]
        main, turns = threading.main_thread(), self

        def timed(self: asyncio.Handle) -> None:
            if threading.current_thread() is not main:
                run(self)
                return
            begun = turns._began = time.thread_time()
            try:
                run(self)
            finally:
                turns._began = None
                took = time.thread_time() - begun
                if took > LONG_S:
                    turns._note(took, self)

        asyncio.Handle._run = timed  # pyright: ignore[reportPrivateUsage]
        threading.Thread(target=self._sample, daemon=True).start()

    def _note(self, took: float, handle: asyncio.Handle) -> None:
        self._count += 1
        self._longest.append((round(took, 3), repr(handle)[:300]))
        self._longest.sort(reverse=True)
        del self._longest[20:]

    def _sample(self) -> None:
        main = threading.main_thread().ident or 0
        written = time.monotonic()
        while True:
            time.sleep(SAMPLE_S)
            began = self._began
            if began is not None and time.clock_gettime(self._clock) - began > LONG_S:
                frame = sys._current_frames().get(main)  # pyright: ignore[reportPrivateUsage]
                stack = traceback.extract_stack(frame)[-_DEPTH:]
                self._stacks[" < ".join(f"{s.name}:{_short(s)}" for s in reversed(stack))] += 1
            if time.monotonic() - written > 2:
                written = time.monotonic()
                self._write()

    def _write(self) -> None:
        found = {
            "long_turns": self._count,
            "longest": self._longest,
            "stacks": self._stacks.most_common(30),
        }
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(found, indent=1))
        beside.replace(self._file)


def _short(frame: traceback.FrameSummary) -> str:
    return f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"


def main() -> None:
    Turns(Path(sys.argv.pop(1))).start()
    from armory.cli.main import main as armory

    sys.argv[0] = "armory"
    armory()


if __name__ == "__main__":
    main()
