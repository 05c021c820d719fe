"""One replica among others: how it finds its address, and what is asked of all of them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from armory.config import load_text
from armory.runtime.replicas.broadcast import ASKED, Broadcast
from armory.runtime.replicas.shared import REPLICA_URL, shared
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


async def test_the_address_is_looked_up_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, look_up = threading.current_thread(), socket.getaddrinfo

    def found(*arguments: Any, **more: Any) -> Any:
        assert threading.current_thread() is not loop
        return look_up(*arguments, **more)

    monkeypatch.delenv(REPLICA_URL, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", found)
    config = load_text(json.dumps({"storage": {"redis": "redis://127.0.0.1:1/0"}})).config
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        replicas = (await shared(config, stack, "0.0.0.0", 8080, "")).replicas
        assert replicas is not None
        assert "0.0.0.0" not in replicas.own_url


@pytest.mark.parametrize("what", ["reload", "restart"])
async def test_what_is_asked_of_all_is_done_and_told_though_who_asked_has_gone(
    tmp_path: Path, what: str
) -> None:
    database = Database(f"sqlite:///{tmp_path}/armory.db")
    await database.open()
    feed = ChangeFeed(database, MemoryCache())
    begun, go, told = asyncio.Event(), asyncio.Event(), list[str]()

    async def work(_asked: object) -> Any:
        begun.set()
        await go.wait()

    async def hear(value: str) -> None:
        told.append(value)

    broadcast = Broadcast(feed, "project", lambda: ["up"], work, work)
    feed.subscribe(ASKED, hear)
    asked = broadcast.reload(False) if what == "reload" else broadcast.restart("up")
    asking = asyncio.ensure_future(asked)
    async with asyncio.timeout(30):
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go.set()
        await until(lambda: bool(told))
    await broadcast.close()
    await database.close()
