"""A session's request that is served in the task of its client's connection.

Owns: `Running`, by which others cancel it or wait for its end without touching what the task does
before and after; `ById`, those in flight. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Running:
    """A request that a task serves until `end`, and that can be cancelled without cancelling the
    task itself.

    Args:
        task: which goes on afterwards.

    Attributes:
        withdrawn: whether it was cancelled.
    """

    __slots__ = ("_ended", "_task", "withdrawn")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task: asyncio.Task[None] | None = task
        self._ended: asyncio.Future[None] | None = None
        self.withdrawn = False

    def cancel(self, reason: str | None = None) -> None:
        """Cancel it; does nothing once it has ended."""
        if self._task is not None and not self.withdrawn:
            self.withdrawn = True
            self._task.cancel(reason)

    def end(self) -> None:
        """It has ended: the task goes on, even if the request was cancelled."""
        task, self._task = self._task, None
        if self.withdrawn and task is not None:
            task.uncancel()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def ended(self) -> asyncio.Future[None]:
        """A future that is done when it has ended."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._ended.set_result(None)
        return self._ended


class ById(Generic[_T]):
    """Requests in flight by id.

    A client must not use an id twice, but some give each request the same. Those are all served,
    and a cancellation means all of them.
    """

    __slots__ = ("_before", "_latest")

    def __init__(self) -> None:
        self._latest: dict[bytes, _T] = {}
        self._before: set[tuple[bytes, _T]] = set()

    def __bool__(self) -> bool:
        return bool(self._latest or self._before)

    def __iter__(self) -> Iterator[_T]:
        yield from self._latest.values()
        yield from (running for _, running in self._before)

    def add(self, id: bytes, running: _T) -> None:
        """A request begins."""
        if (before := self._latest.get(id)) is not None:
            self._before.add((id, before))
        self._latest[id] = running

    def drop(self, id: bytes, running: _T | None) -> None:
        """It has ended."""
        if self._latest.get(id) is running:
            del self._latest[id]
        elif running is not None:
            self._before.discard((id, running))

    def of(self, id: bytes) -> Iterator[_T]:
        """Those with this id."""
        if (latest := self._latest.get(id)) is not None:
            yield latest
        if self._before:
            yield from [running for other, running in self._before if other == id]


async def ended(every: Iterable[Running], timeout_s: float) -> None:
    """Wait until all have ended, at most `timeout_s` seconds."""
    if waited := [running.ended() for running in every]:
        await asyncio.wait(waited, timeout=timeout_s)
