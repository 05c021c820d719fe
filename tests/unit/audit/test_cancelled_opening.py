"""A sink whose opening is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from armory.audit.record import Entry
from armory.audit.threaded import ThreadedSink
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


class Slow:
    """A sink that takes its time to open."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.opened = self.closed = False

    async def open(self) -> bool:
        self.began.set()
        self.opened = await asyncio.to_thread(self.go_on.wait, 60)
        return True

    async def write(self, entries: Sequence[Entry]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


async def test_an_opening_that_is_cancelled_comes_to_its_end_first() -> None:
    sink, before = Slow(), set(threading.enumerate())
    opening = asyncio.ensure_future(ThreadedSink(sink).open())
    await asyncio.to_thread(sink.began.wait, 60)
    opening.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not opening.done()
    sink.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert sink.opened
    assert sink.closed
    await until(
        lambda: "write the audit" not in {t.name for t in {*threading.enumerate()} - before}
    )
