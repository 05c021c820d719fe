"""One user cannot fill what is read between two calls of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from armory.accounts import limits, query_log
from armory.accounts.packs import Pack
from armory.accounts.query_log import QueryRecord
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.errors import InvalidRequest
from armory.storage.database import Database
from tests.contract.running_accounts import RunningAccounts

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, value in (("PACKS", 2), ("PACK_ENTRIES", 5), ("INSTALLATIONS", 2), ("KEYS", 2)):
        monkeypatch.setattr(limits, f"MAX_{bound}", value)


@pytest.fixture
async def replicas(stores: Any) -> AsyncIterator[RunningAccounts]:
    settings = AccountSettings(enabled=True)
    found = RunningAccounts(lambda: Accounts(Database(stores.url), stores.cache(), settings))
    yield found
    await found.stop()


async def test_packs_of_one_user_and_what_is_in_them(replicas: Any) -> None:
    accounts = await replicas.start()
    packs = accounts.packs
    await packs.create(Pack("one", "ann", "One", tools=("a", "b", "c")))
    with pytest.raises(InvalidRequest, match="together"):
        await packs.create(Pack("two", "ann", "Two", servers=("s",), tools=("a", "b")))
    await packs.create(Pack("two", "ann", "Two", tools=("a", "b")))
    with pytest.raises(InvalidRequest, match="at most 2 packs"):
        await packs.create(Pack("three", "ann", "Three"))
    with pytest.raises(InvalidRequest, match="together"):
        await packs.replace(Pack("two", "ann", "Two", tools=("a", "b", "c")), user="ann")
    assert await packs.replace(Pack("two", "ann", "Two", tools=("d", "e")), user="ann")
    assert [(p.id, p.tools) for p in await packs.list(user="ann")] == [
        ("one", ("a", "b", "c")),
        ("two", ("d", "e")),
    ]
    for number in range(3):  # of others, and shared ones, there are more
        await packs.create(Pack(f"s{number}", None, "Shared", tools=("a", "b", "c")))
    await packs.create(Pack("his", "bob", "His", tools=("a",)))


async def test_what_was_there_before_may_change(
    replicas: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = (await replicas.start()).packs
    await packs.create(Pack("one", "ann", "One", tools=("a", "b", "c")))
    monkeypatch.setattr(limits, "MAX_PACK_ENTRIES", 2)
    assert await packs.replace(Pack("one", "ann", "One", tools=("d", "e", "f")), user="ann")


async def test_installations_of_one_user(replicas: Any) -> None:
    packs = (await replicas.start()).packs
    await packs.install("ann", [("tool", "a__x"), ("tool", "a__y")])
    with pytest.raises(InvalidRequest, match="at most 2 installations"):
        await packs.install("ann", [("tool", "a__z")])
    await packs.set_active("ann", "tool", "a__x", active=False)
    await packs.install("ann", [("tool", "a__x")])  # again
    assert [(one.value, one.is_active) for one in await packs.installed("ann")] == [
        ("a__x", True),
        ("a__y", True),
    ]


async def test_keys_of_one_user(replicas: Any) -> None:
    accounts = await replicas.start()
    await accounts.users.create("ann")
    keys = accounts.keys
    made = [(await keys.create(f"k{number}", user="ann"))[0] for number in range(2)]
    with pytest.raises(InvalidRequest, match="at most 2 keys; revoke one first"):
        await keys.create("k2", user="ann")
    await keys.revoke(made[0].id, user="ann")
    await keys.create("k2", user="ann")
    assert {key.name for key in await keys.list("ann")} == {"k1", "k2"}
    service = [(await keys.create(f"service{n}"))[0] for n in range(3)]  # of nobody in particular
    for key in service[:2]:
        await keys.revoke(key.id)
    await keys.create("service3")
    assert {key.name for key in await keys.list()} == {"k1", "k2", "service2", "service3"}


async def test_so_many_queries_are_kept(replicas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_log, "KEPT", 3)
    log = (await replicas.start()).query_log
    asked = [QueryRecord(f"q{n}", "ann", "mcp", f"query {n}", (), 1, 0.5, 1.0) for n in range(5)]
    for record in asked:
        log.add(record)
    await log.flush()
    assert await log.prune() == 2
    assert [record.query for record in await log.recent()] == ["query 4", "query 3", "query 2"]

    monkeypatch.setattr(query_log, "_PRUNE_AFTER", 2)  # also before its time
    for record in asked[:2]:
        log.add(record)
    await log.flush()
    assert len(await log.recent()) == 3
