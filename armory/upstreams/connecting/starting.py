"""Waiting for a stdio server to start, which takes minutes where a launcher installs it first.

Owns: how long a start is waited for, and what is said meanwhile. Never imports the pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from armory.errors import UpstreamTimeout
from armory.tasks import start, stop
from armory.upstreams.transports.stdio import StdioLink

_T = TypeVar("_T")
FOREVER_S = 86_400.0
"""Deadline of a single request to a process whose start is watched as a whole."""
LOOK_S = 30.0
"""A launcher that did nothing for so long is taken for stuck."""


class Starting:
    """A process that has not answered yet.

    Args:
        link: to be opened, or open.
    """

    def __init__(self, link: StdioLink) -> None:
        self._link = link
        self._began = time.monotonic()

    @property
    def owner(self) -> str:
        """The pool's key of whose session it is."""
        return self._link.owner

    @property
    def waited_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._began

    @property
    def status_text(self) -> str:
        """What is being waited for, for people."""
        launcher = self._link.spec.launcher
        also = f"; {launcher} may be installing it" if launcher else ""
        return (
            f"started {self.waited_s:.0f} s ago and has not answered yet{also}{self._last_output()}"
        )

    async def answer(self, meet: Callable[[float], Awaitable[_T]]) -> _T:
        """The result of `meet`, waited for as long as the start may take.

        Args:
            meet: gets acquainted; told the deadline of each of its requests, in seconds.

        Raises:
            UpstreamUnavailable: the process ended.
            UpstreamTimeout: it did not answer in time.
        """
        spec = self._link.spec
        if not spec.starts_slowly:
            try:
                return await meet(spec.connect_timeout_s)
            except UpstreamTimeout as error:
                raise UpstreamTimeout(f"{error}{self._last_output()}", upstream=spec.key) from None
        task = start(_awaited(meet(FOREVER_S)), f"start of {spec.key}")
        try:
            wait_s = max(0.0, spec.start_timeout_s - LOOK_S)
            look_s = min(LOOK_S, spec.start_timeout_s)
            worked: int | None = None
            while not (await asyncio.wait((task,), timeout=wait_s))[0]:
                done = self.work_done()
                if worked is not None and (spec.launcher is None or done == worked):
                    raise UpstreamTimeout(
                        f"upstream {spec.key!r}: {self.status_text}. If it needs longer, raise "
                        f"upstreams.{spec.key}.start_timeout_s ({spec.start_timeout_s:g} s)",
                        upstream=spec.key,
                    )
                worked, wait_s = done, look_s
            return task.result()
        finally:
            await stop(task)
            del task  # whose error holds this frame by its trace

    def work_done(self) -> int:
        """A number that grows while the process or its children do anything (CPU time, output)."""
        return self._link.process.work_done() if self._link.process is not None else 0

    def _last_output(self) -> str:
        process = self._link.process
        words = process.last_words if process is not None else ""
        return f"; it last said: {words}" if words else ""


async def _awaited(work: Awaitable[_T]) -> _T:
    return await work
