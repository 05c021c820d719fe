"""Accounts on every storage: one suite over memory + SQLite and Redis + PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from armory.accounts.keys import PREFIX
from armory.accounts.names import AlreadyExists
from armory.accounts.packs import Pack
from armory.accounts.query_log import QueryRecord
from armory.accounts.registry import TOOLS
from armory.accounts.service import Accounts
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, InvalidRequest
from armory.storage.database import Database
from armory.testing.waiting import eventually

pytestmark = pytest.mark.anyio


async def valid(accounts: Accounts, text: str) -> bool:
    try:
        return await accounts.keys.identify(text) is not None
    except AuthenticationFailed:
        return False


async def test_a_key_is_shown_once_kept_as_a_hash_and_names_its_principal(replicas: Any) -> None:
    accounts = await replicas.start()
    await accounts.users.create("ann")
    made, text = await accounts.keys.create("laptop", user="ann", scopes=["read", "read"])
    assert text.startswith(PREFIX)
    assert len(text) == 47
    principal = await accounts.keys.identify(text)
    assert principal == Principal(made.id, "ann", frozenset(("read",)), "api_key")
    listed = await accounts.keys.list("ann")
    assert (listed, await accounts.keys.list("ann", after=made.id)) == ([made], [])
    assert text not in repr(listed)
    assert made.prefix == text[:12]
    assert await accounts.keys.identify("not-a-key") is None


async def test_keys_that_are_not_valid_are_all_refused_alike(replicas: Any) -> None:
    accounts = await replicas.start()
    _, text = await accounts.keys.create("short", expires_at_ms=9_999_999_999_999)
    messages: set[str] = set()
    for wrong in (text[:-1], text[:-1] + "!", text + "a", PREFIX, PREFIX + "x" * 43, text.upper()):
        try:
            assert await accounts.keys.identify(wrong) is None
        except AuthenticationFailed as error:
            messages.add(error.message)
    assert len(messages) == 1


async def test_an_expired_key_is_refused_although_it_is_cached(stores: Any) -> None:
    from armory.accounts.keys import ApiKeys
    from armory.storage.changes import ChangeFeed

    database, cache = Database(stores.url), stores.cache()
    await database.open()
    feed, now = ChangeFeed(database, cache), 1_000_000
    keys = ApiKeys(database, cache, feed, now_ms=lambda: now)
    _, text = await keys.create("soon", expires_at_ms=now + 5_000)
    assert await keys.identify(text) is not None
    now += 5_000
    with pytest.raises(AuthenticationFailed):
        await keys.identify(text)
    with pytest.raises(InvalidRequest, match="expired already"):
        await keys.create("past", expires_at_ms=now)
    await cache.aclose()
    await database.close()


async def test_a_key_revoked_on_one_replica_is_refused_by_the_other(replicas: Any) -> None:
    first, second = await replicas.start(), await replicas.start()
    made, text = await first.keys.create("shared")
    for accounts in (first, second, first, second):
        assert await valid(accounts, text)
    assert await first.keys.revoke(made.id)
    assert not await valid(first, text)

    async def refused() -> bool:
        return not await valid(second, text)

    await eventually(refused)
    assert not await first.keys.revoke("nobody")


async def test_nobody_revokes_the_key_of_another(replicas: Any) -> None:
    accounts = await replicas.start()
    await accounts.users.create("ann")
    made, text = await accounts.keys.create("hers", user="ann")
    assert not await accounts.keys.revoke(made.id, user="bob")
    assert await valid(accounts, text)


async def test_a_key_that_was_unknown_works_once_it_is_made(replicas: Any) -> None:
    first, second = await replicas.start(), await replicas.start()
    wrong = PREFIX + "z" * 43
    assert not await valid(first, wrong)
    assert not await valid(second, wrong)
    _, text = await first.keys.create("new")
    assert await valid(second, text)


async def test_a_deactivated_user_is_out_everywhere(replicas: Any) -> None:
    first, second = await replicas.start(), await replicas.start()
    await first.users.create("ann")
    _, text = await first.keys.create("hers", user="ann")
    assert await valid(second, text)
    await first.users.change("ann", is_active=False)

    async def refused() -> bool:
        return not await valid(second, text)

    await eventually(refused)
    with pytest.raises(AuthenticationFailed):
        await second.scopes.admit(Principal("ann", "ann", method="jwt"))


async def test_packs_decide_what_is_active(replicas: Any) -> None:
    accounts = await replicas.start()
    ann = Principal("ann", "ann")
    await accounts.packs.create(
        Pack("ops", None, "Operations", servers=("pager",), tools=("git__log", "git__show"))
    )
    await accounts.packs.install("ann", [("pack", "ops"), ("server", "mail"), ("tool", "a__b")])
    await accounts.scopes.admit(ann)
    view = accounts.scopes.view_of("ann")
    assert view.servers == {"pager", "mail"}
    assert view.tools == {"git__log", "git__show", "a__b"}
    assert view.includes("pager__call")
    assert view.includes("pager+file:///x")
    assert not view.includes("git__push")
    assert await accounts.packs.set_active("ann", "pack", "ops", active=False)
    assert accounts.scopes.view_of("ann").servers == {"mail"}
    assert await accounts.packs.uninstall("ann", "server", "mail")
    assert not await accounts.packs.uninstall("ann", "server", "mail")
    assert accounts.scopes.view_of("ann").servers == set()
    assert accounts.scopes.view_of("stranger").key == "none"


async def test_a_pack_disabled_changed_or_deleted_on_one_replica_counts_on_the_other(
    replicas: Any,
) -> None:
    first, second = await replicas.start(), await replicas.start()
    changed: list[str] = []
    second.scopes.observe(changed.append)
    await first.packs.create(Pack("ops", None, "Operations", servers=("pager",)))
    await first.packs.install("ann", [("pack", "ops")])
    await second.scopes.admit(Principal("ann", "ann"))

    def sees(*servers: str) -> Callable[[], Awaitable[bool]]:
        async def check() -> bool:
            return second.scopes.view_of("ann").servers == set(servers)

        return check

    await eventually(sees("pager"))
    await first.packs.replace(Pack("ops", None, "Operations", servers=("logs",)), user=None)
    await eventually(sees("logs"))
    await first.packs.set_active("ann", "pack", "ops", active=False)
    await eventually(sees())
    await first.packs.set_active("ann", "pack", "ops", active=True)
    await eventually(sees("logs"))
    await first.packs.delete("ops", user=None)
    await eventually(sees())
    assert changed == ["ann"] * 4


async def test_packs_of_others_are_neither_seen_nor_touched(replicas: Any) -> None:
    accounts = await replicas.start()
    mine = Pack("mine", "ann", "Mine", servers=("pager",))
    await accounts.packs.create(mine)
    ours = await accounts.packs.create(
        Pack("ours", None, "Ours", servers=("logs", "pager", "logs"))
    )
    assert ours.servers == ("logs", "pager"), "as they are kept"
    packs = accounts.packs
    assert await packs.get("mine", user="bob") is None
    assert [pack.id for pack in await packs.list(user="bob", after="our")] == ["ours"]
    assert await packs.replace(Pack("mine", "bob", "Taken"), user="bob") is None
    assert not await packs.delete("mine", user="bob")
    assert not await packs.delete("ours", user="bob")
    with pytest.raises(InvalidRequest, match="no such pack"):
        await packs.install("bob", [("pack", "mine")])
    with pytest.raises(AlreadyExists):
        await packs.create(Pack("mine", None, "Again"))
    assert await packs.get("mine", user="ann") == mine


HOSTILE = "'; DROP TABLE users; -- \" % _ \\ \u202e \U0001f600"


async def test_no_pack_and_no_installation_makes_a_user_that_is_to_be_there(replicas: Any) -> None:
    accounts, other = await replicas.start(), await replicas.start()
    with pytest.raises(InvalidRequest, match="no such user"):
        await accounts.packs.create(Pack("mine", "gone", "Mine"), make_user=False)
    with pytest.raises(InvalidRequest, match="no such user"):
        await accounts.packs.install("gone", [("server", "github")], make_user=False)
    assert await other.users.get("gone") is None
    assert await other.packs.list(user=None) == []
    await accounts.packs.install("gone", [("server", "github")])
    await other.packs.create(Pack("mine", "gone", "Mine"), make_user=False)
    assert [pack.id for pack in await accounts.packs.list(user="gone")] == ["mine"]


async def test_hostile_text_is_kept_as_text(replicas: Any) -> None:
    accounts = await replicas.start()
    name = "x'; DROP TABLE users; --"
    await accounts.users.create(name)
    await accounts.packs.create(Pack("odd", name, name, HOSTILE, servers=(name,)))
    await accounts.packs.install(name, [("tool", "%"), ("server", "' OR 1=1 --")])
    accounts.query_log.add(QueryRecord("q", name, "v1", HOSTILE, (HOSTILE,), 1, 0.5, 1.0))
    await accounts.flush()
    found = await accounts.packs.get("odd", user=name)
    assert found is not None
    assert found.description == HOSTILE
    assert (await accounts.query_log.recent(user=name))[0].query == HOSTILE
    assert [user.id for user in await accounts.users.list()] == [name]
    for bad in ("", " x", "a\nb", "a\x00b", "x" * 201):
        with pytest.raises(InvalidRequest):
            await accounts.users.create(bad)


async def test_indexed_tools_are_known_to_every_replica(replicas: Any) -> None:
    first, second = await replicas.start(), await replicas.start()
    told = asyncio.Event()

    async def tell(_value: str) -> None:
        told.set()

    second.feed.subscribe(TOOLS, tell)
    tools = [{"name": "deploy", "description": "Ship it"}, {"name": "odd name!"}]
    written, skipped = await first.registry.add(tools, server="aws", tags=["async"])
    assert (written, skipped) == (["aws__deploy", "aws__odd_name_"], [])
    await asyncio.wait_for(told.wait(), 10)
    record = second.registry.records["aws__deploy"]
    assert (record.description, record.tags, record.server) == ("Ship it", ("async",), "aws")
    again, left = await first.registry.add(tools[:1], server="aws", skip_existing=True)
    assert (again, left) == ([], ["aws__deploy"])
    assert await first.registry.remove(["aws__deploy"]) == ["aws__deploy"]
    with pytest.raises(InvalidRequest):
        await first.registry.add(tools, server="Not A Key")
