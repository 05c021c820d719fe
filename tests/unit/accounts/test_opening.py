"""Accounts that are kept going: a defect in one of their tasks costs a moment, not all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from armory.accounts.opening import Opening
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.tasks import start, stop

pytestmark = pytest.mark.anyio


async def test_they_go_on_after_what_nobody_expected(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    accounts = Accounts(Database(url), MemoryCache(), AccountSettings(enabled=True))
    opening = Opening(accounts, again_s=0.01)
    await opening.attempt()
    heard: asyncio.Queue[str] = asyncio.Queue()
    left = 2

    async def hear(value: str) -> None:
        nonlocal left
        if left:
            left -= 1
            raise RuntimeError("a defect")
        heard.put_nowait(value)

    accounts.feed.subscribe("made up", hear)
    with capture_logs() as logs:
        task = start(opening.run(), "accounts")
        elsewhere = Accounts(Database(url), MemoryCache(), AccountSettings(enabled=True))
        await elsewhere.open()
        async with elsewhere.feed.transaction() as change:
            change.changed("made up", "ann")
        async with asyncio.timeout(10):
            assert await heard.get() == "ann"
        await stop(task)
    failed = [entry for entry in logs if entry["event"] == "accounts_failed"]
    # each failure is told, the whole traceback once
    assert [entry["exc_info"] is not None for entry in failed] == [True, False]
    await elsewhere.close()
    await accounts.close()


async def test_a_database_is_away_while_it_is_tried_again() -> None:
    """Else a pod would say that it is ready for as long as each attempt takes."""
    pytest.importorskip("asyncpg")
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()  # until whoever asked gives up
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    url = f"postgresql://armory@127.0.0.1:{port}/armory"
    accounts = Accounts(Database(url), MemoryCache(), AccountSettings(enabled=True))
    opening = Opening(accounts)
    await opening.attempt()
    away = opening.away
    assert away is not None
    async with await asyncio.start_server(hang, "127.0.0.1", port):
        trying = start(opening.attempt(), "an attempt")
        async with asyncio.timeout(30):
            await asked.wait()
        assert opening.away == away
        await stop(trying)
    await accounts.close()
