"""What of the statistics is read again, on every database."""

from __future__ import annotations

from typing import Any

import pytest

from armory.accounts.usage.statistics import UsageStatistics
from armory.accounts.usage.store import UsageStore
from armory.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_statistics_that_are_read_already_are_not_summed_up_again(stores: Any) -> None:
    database = Database(stores.url)
    await database.open()
    try:
        usage, store = UsageStatistics(database, tools=lambda: 5), UsageStore(database)
        for tool in ("git__log", "git__show"):
            usage.called("ann", tool, ok=True, latency_ms=5.0)
        await usage.flush()
        assert set(await store.changed_tools(0)) == {"git__log", "git__show"}
        assert await store.changed_tools(0) == {}
        usage.called("bob", "git__log", ok=False, latency_ms=5.0)
        await usage.flush()
        found = await store.changed_tools(0)
        assert {tool: (it.uses, it.successes) for tool, it in found.items()} == {"git__log": (2, 1)}
        assert set(await store.changed_tools(0, anew=True)) == {"git__log", "git__show"}
    finally:
        await database.close()
