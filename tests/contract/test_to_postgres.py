"""The program of docs/operating.md that moves a gateway from SQLite to Postgres."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest

from armory.accounts.query_log import QueryRecord
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.audit.reading import RecordFilter, checked, records
from armory.audit.record import Entry
from armory.audit.settings import AuditSettings
from armory.audit.sinks import DatabaseSink
from armory.audit.threaded import ThreadedSink
from armory.audit.writer import opened_audit
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.testing.servers import PostgresServer
from armory.testing.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
FENCED = re.compile(r"<!-- file: to_postgres.py -->\n\n```python\n(.*?)^```$", re.M | re.S)


def accounts_at(url: str) -> Accounts:
    settings = AccountSettings(enabled=True, plans={"free": 100})
    return Accounts(Database(url), MemoryCache(), settings)


async def ask(accounts: Accounts, query: str) -> None:
    await accounts.plans.spend("ann")
    accounts.query_log.add(QueryRecord("q", "ann", "v1", query, (), 1, 0.5, 1.0))
    await accounts.flush()


async def test_everything_is_there_afterwards_and_goes_on(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    old, new = f"sqlite:///{tmp_path / 'armory.db'}", postgres_server.create_database()
    before = accounts_at(old)
    await before.open()
    await before.users.create("ann")
    _, key = await before.keys.create("laptop", user="ann")
    await ask(before, "mail")
    await before.close()
    async with opened_audit(ThreadedSink(DatabaseSink(Database(old), 365)), AuditSettings()) as log:
        log.note(Entry(time.time(), "ann", "none", "/mcp", "tools/call", "ok", tool="mail__send"))
        await until(lambda: log.written == 1)
    program = tmp_path / "to_postgres.py"
    found = FENCED.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    program.write_text(found[1], encoding="utf-8")

    async def run() -> int:
        process = await asyncio.create_subprocess_exec(sys.executable, program, old, new)
        async with asyncio.timeout(60):
            return await process.wait()

    assert await run() == 0
    after = accounts_at(new)
    await after.open()
    assert [user.id for user in await after.users.list()] == ["ann"]
    who = await after.keys.identify(key)
    assert who is not None
    assert who.user == "ann"
    await ask(after, "rain")
    assert (await after.plans.standing("ann")).current_month_usage == 2
    assert [one.query for one in await after.query_log.recent(user="ann")] == ["rain", "mail"]
    await after.close()
    assert len(await records(new, [], RecordFilter(tool="mail__send"), limit=10)) == 1
    async with opened_audit(ThreadedSink(DatabaseSink(Database(new), 365)), AuditSettings()):
        pass
    assert (await checked(new, [])).problem is None
    assert await run() != 0, "what is there already is not written over"
