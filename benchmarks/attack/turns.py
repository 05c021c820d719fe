"""A gateway whose long turns of the event loop are noted in a file: its first argument.

Owns: CPU time of the loop's thread in each callback, and the stacks of those that take long. CPU
time does not depend on what else runs on the machine. Linux only.
"""

from __future__ import annotations

import asyncio
import gc
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
LATE_S = 0.05
"""By so much a timer of the loop is late when that is noted, with the stacks of other threads."""
_DEPTH = 12
_WAITING = ("wait", "select", "_worker", "_do_waitpid", "_connection_worker_thread")


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
        self._collected: dict[int, list[float]] = {}
        self._collecting = 0.0
        self._due = 0.0
        self._latest: list[float] = []
        self._beside: Counter[str] = Counter()

    def start(self) -> None:
        """Watch the event loop of the main thread from now on."""
        run = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]
        main, turns = threading.main_thread(), self

        def timed(self: asyncio.Handle) -> None:
            if threading.current_thread() is not main:
                run(self)
                return
            if not turns._due:
                turns.tick(asyncio.get_running_loop())
            begun = turns._began = time.thread_time()
            try:
                run(self)
            finally:
                turns._began = None
                took = time.thread_time() - begun
                if took > LONG_S:
                    turns._note(took, self)

        asyncio.Handle._run = timed  # pyright: ignore[reportPrivateUsage]
        gc.callbacks.append(self._collection)
        threading.Thread(target=self._sample, daemon=True).start()

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            took = time.thread_time() - self._collecting
            self._collected.setdefault(info["generation"], []).append(took)

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note how late a timer is, again and again."""
        now = time.monotonic()
        if self._due and now - self._due > LATE_S:
            self._latest = sorted([*self._latest, round(now - self._due, 3)])[-20:]
        self._due = now + SAMPLE_S
        loop.call_later(SAMPLE_S, self.tick, loop)

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
            if self._due and time.monotonic() - self._due > LATE_S:
                self._note_others()
            if time.monotonic() - written > 2:
                written = time.monotonic()
                self._write()

    def _note_others(self) -> None:
        """The stacks of threads that do anything; with the interpreter's lock: without it
        (`faulthandler`) they are read while they change, which has ended a process.
        """
        for ident, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage]
            stack = traceback.extract_stack(frame)[-5:]
            if ident != threading.get_ident() and stack[-1].name not in _WAITING:
                shown = " < ".join(f"{s.name}:{_short(s)}" for s in reversed(stack))
                self._beside[shown] += 1

    def _write(self) -> None:
        found = {
            "long_turns": self._count,
            "longest": self._longest,
            "stacks": self._stacks.most_common(30),
            "late_s": self._latest,
            "stacks_while_late": self._beside.most_common(40),
            "collections": {
                generation: {
                    "times": len(took),
                    "longest_s": round(max(took), 4),
                    "all_s": round(sum(took), 3),
                }
                for generation, took in self._collected.items()
            },
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
