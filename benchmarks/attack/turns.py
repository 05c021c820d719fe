"""A gateway whose long turns of the event loop are noted in a file: its first argument.

Owns: CPU time of the loop's thread in each callback, CPU time of the whole process while a timer of
the loop was late, and the stacks seen meanwhile. CPU time does not depend on what else runs on the
machine. Linux only.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import json
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG_S = 0.05
"""A turn from which on it is noted, in seconds of the thread's CPU time."""
SAMPLE_S = 0.01
LATE_S = 0.008
"""By so much a timer of the loop is late when that is noted, with the stacks of other threads."""
ROUND_S = 0.004
"""From so much time on a round of the loop (all that was ready) is noted, with what it did: many
short turns in one round keep others waiting as one long turn does."""
KEPT = 2_000
"""So many turns, times of lateness and collections are kept in all, the longest."""
_DEPTH = 12
_PROTOCOLS = (
    ("armory.web.connections.connection", "Connection", "connection_made"),
    ("armory.web.connections.connection", "Connection", "data_received"),
    ("armory.web.connections.connection", "Connection", "connection_lost"),
    ("armory.http1.connection", "Connection", "buffer_updated"),
    ("armory.http1.connection", "Connection", "connection_lost"),
    ("armory.upstreams.transports.child", "_Pipe", "data_received"),
)
"""What uvloop calls itself: module, class, method."""
_WAITING = ("wait", "select", "_worker", "_do_waitpid", "_connection_worker_thread")


class Longest:
    """The longest of what took time.

    Args:
        kept: so many are.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self.noted: list[dict[str, Any]] = []

    def note(self, took: float, **more: Any) -> None:
        """One that ends now and took `took` seconds of CPU time."""
        now = round(time.monotonic(), 3)
        self.noted.append({"t": now, "cpu_ms": round(1_000 * took, 1), **more})
        if len(self.noted) >= 2 * self._kept:
            self.noted.sort(key=lambda one: -one["cpu_ms"])
            del self.noted[self._kept :]


class Turns:
    """Notes long turns.

    Args:
        file: written every few seconds: the long turns, the times when timers were late,
            collections, and stacks.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
        self._began: float | None = None
        self._turns, self._late, self._collections = Longest(), Longest(), Longest()
        self._stacks: Counter[str] = Counter()
        self._beside: Counter[str] = Counter()
        self._round: dict[str, float] = defaultdict(float)
        self._long_rounds = Longest()
        self._round_began: float | None = None
        self._handles = 0
        self._collecting = 0.0
        self._due = 0.0
        self._sampler = 0
        self._spent = 0.0
        self._seen: Counter[str] = Counter()

    def start(self) -> None:
        """Watch the event loop of the main thread from now on."""
        self._watch_asyncio()
        self._watch_uvloop()
        gc.callbacks.append(self._collection)
        threading.Thread(target=self._sample, daemon=True).start()

    def timed(self, run: Callable[[], Any], callback: Any) -> Any:
        """Run a turn of the loop's thread, and note what it takes."""
        if self._began is not None or threading.current_thread() is not threading.main_thread():
            return run()
        if not self._due:
            self.tick(asyncio.get_running_loop())
        begun = self._began = time.thread_time()
        if self._round_began is None:
            self._round_began = time.monotonic()
        try:
            return run()
        finally:
            self._began = None
            took = time.thread_time() - begun
            self._round[_named(callback)] += took
            self._handles += 1
            if took > LONG_S:
                self._turns.note(took, what=_named(callback))

    def _watch_asyncio(self) -> None:
        run, turns = asyncio.Handle._run, self  # pyright: ignore[reportPrivateUsage]
        once = asyncio.BaseEventLoop._run_once  # pyright: ignore

        def timed(self: asyncio.Handle) -> None:
            turns.timed(lambda: run(self), self._callback)  # pyright: ignore

        def round_(self: asyncio.BaseEventLoop) -> None:
            if threading.current_thread() is not threading.main_thread():
                once(self)  # pyright: ignore
                return
            turns._round_began = None
            once(self)  # pyright: ignore
            turns._end_of_round()

        asyncio.Handle._run = timed  # pyright: ignore[reportPrivateUsage]
        asyncio.BaseEventLoop._run_once = round_  # pyright: ignore

    def _watch_uvloop(self) -> None:
        """Its handles are no Python: what they call is wrapped when it is handed in, and protocols,
        which it calls itself, one by one.
        """
        if importlib.util.find_spec("uvloop") is None:
            return
        import uvloop

        turns = self

        class Watched(uvloop.Loop):
            pass

        for name, place in (("call_soon", 0), ("call_soon_threadsafe", 0), ("call_later", 1)):
            setattr(Watched, name, _handing_in(turns, getattr(uvloop.Loop, name), place))
        Watched.call_at = _handing_in(turns, uvloop.Loop.call_at, 1)
        uvloop.Loop = Watched  # the gateway's own is a kind of it
        for module, cls, name in _PROTOCOLS:
            owner = getattr(importlib.import_module(module), cls)
            setattr(owner, name, _watched(turns, getattr(owner, name)))

    def _end_of_round(self) -> None:
        done, self._round = self._round, defaultdict(float)
        handles, self._handles = self._handles, 0
        took, began = sum(done.values()), self._round_began
        wall = 0.0 if began is None else time.monotonic() - began
        if max(took, wall) > ROUND_S:
            most = sorted(done.items(), key=lambda one: -one[1])[:4]
            self._long_rounds.note(
                took,
                wall_ms=round(1_000 * wall, 1),
                handles=handles,
                what={name: round(1_000 * s, 1) for name, s in most},
            )

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        elif (took := time.thread_time() - self._collecting) > SAMPLE_S:
            self._collections.note(took, generation=info["generation"])

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note how late a timer is, again and again, and what the process did meanwhile."""
        now, spent = time.monotonic(), time.process_time()
        late = now - self._due
        if not isinstance(loop, asyncio.BaseEventLoop):  # uvloop does not tell where a round ends
            self._round_began = self._due
            if self._due and late > ROUND_S:
                self._end_of_round()
            self._round, self._handles = defaultdict(float), 0
        if self._due and late > LATE_S:
            # Where a thread is that kept the interpreter to itself: it has just let go.
            self._note_all()
            seen, self._seen = self._seen, Counter()
            stacks = [stack for stack, _ in seen.most_common(3)]
            self._late.note(spent - self._spent, wall_ms=round(1_000 * late), stacks=stacks)
        self._due, self._spent = now + SAMPLE_S, spent
        loop.call_later(SAMPLE_S, self.tick, loop)

    def _sample(self) -> None:
        main = threading.main_thread().ident or 0
        self._sampler = threading.get_ident()
        written = time.monotonic()
        while True:
            time.sleep(SAMPLE_S)
            began = self._began
            if began is not None and time.clock_gettime(self._clock) - began > LONG_S:
                frame = sys._current_frames().get(main)  # pyright: ignore[reportPrivateUsage]
                self._stacks[_shown(traceback.extract_stack(frame)[-_DEPTH:])] += 1
            if self._due and time.monotonic() - self._due > LATE_S:
                self._note_all()
            if time.monotonic() - written > 2:
                written = time.monotonic()
                self._write()

    def _note_all(self) -> None:
        """The stacks of threads that do anything; with the interpreter's lock: without it
        (`faulthandler`) they are read while they change, which has ended a process.
        """
        for ident, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage]
            stack = traceback.extract_stack(frame)[-5:]
            apart = ident not in (threading.get_ident(), self._sampler)
            if apart and stack[-1].name not in (*_WAITING, "tick"):
                shown = _shown(stack)
                self._beside[shown] += 1
                self._seen[shown] += 1

    def _write(self) -> None:
        found = {
            "turns": self._turns.noted,
            "rounds": self._long_rounds.noted,
            "late": self._late.noted,
            "collections": self._collections.noted,
            "stacks": self._stacks.most_common(30),
            "stacks_while_late": self._beside.most_common(40),
        }
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(found, indent=1))
        beside.replace(self._file)


def _handing_in(turns: Turns, hand_in: Any, place: int) -> Any:
    """A method of a loop that takes a callback as its argument at `place`."""

    def handing_in(loop: Any, *arguments: Any, **more: Any) -> Any:
        callback = arguments[place]

        def timed(*given: Any) -> Any:
            return turns.timed(lambda: callback(*given), callback)

        return hand_in(loop, *arguments[:place], timed, *arguments[place + 1 :], **more)

    return handing_in


def _watched(turns: Turns, method: Any) -> Any:
    """A method of a protocol, timed."""

    def watched(*arguments: Any) -> Any:
        return turns.timed(lambda: method(*arguments), method)

    return watched


def _shown(stack: list[traceback.FrameSummary]) -> str:
    return " < ".join(f"{s.name}:{_short(s)}" for s in reversed(stack))


def _named(callback: Any) -> str:
    """What a turn runs: the coroutine of its task, or the function."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        callback = task.get_coro()  # pyright: ignore[reportUnknownMemberType]
    return getattr(callback, "__qualname__", None) or repr(callback)[:80]


def _short(frame: traceback.FrameSummary) -> str:
    return f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"


def main() -> None:
    Turns(Path(sys.argv.pop(1))).start()
    from armory.cli.main import main as armory

    sys.argv[0] = "armory"
    armory()


if __name__ == "__main__":
    main()
