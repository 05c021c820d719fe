"""What a replica tells the shared store of many sessions, and of those that end."""

from __future__ import annotations

import asyncio

import pytest

from armory.storage.cache import MemoryCache
from armory.testing.waiting import until
from armory.wire.sessions import directory
from armory.wire.sessions.directory import Directory

pytestmark = pytest.mark.anyio


class Together(MemoryCache):
    """A store that takes claims only many at a time, once it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = True
        self.waiting, self.enough = 0, asyncio.Event()

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        if key.startswith("session:") and not self.alone:
            self.waiting += 1
            if self.waiting == 10:
                self.enough.set()
            await self.enough.wait()
        await super().set(key, value, ttl_s)


async def test_many_sessions_are_claimed_side_by_side() -> None:
    store = Together()
    here = Directory(store, "http://here")
    for number in range(100):
        await here.claim(str(number))
        await store.delete(f"session:{number}")
    store.alone = False
    await here.start()
    await until(lambda: store.enough.is_set())
    await here.close()


class Silent(MemoryCache):
    """A store that never says that it deleted anything."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def delete(self, *keys: str) -> None:
        self.asked += 1
        await asyncio.Event().wait()


async def test_one_session_alone_waits_for_a_store_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory, "WAITED_S", 0.05)
    store = Silent()
    here = Directory(store, "http://here")
    for number in range(5):
        await here.claim(str(number))
    for number in range(5):
        await here.release(str(number))
    assert store.asked == 1
