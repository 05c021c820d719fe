"""A thousand users over ten thousand tools: everybody sees exactly what is active, by every way."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from sqlalchemy import insert

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.domain.principal import Principal
from armory.domain.query import Query
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.security.policy import Policy
from armory.storage.cache import MemoryCache
from armory.storage.database import Database, now_ms
from armory.storage.tables import installations, users
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import catalog_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
USERS, SERVERS, TOOLS = 1_000, 100, 100


async def test_each_of_a_thousand_users_gets_exactly_its_own_of_ten_thousand(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)
    catalog = catalog_of(
        {
            f"s{server}": [
                {"name": f"t{tool}", "description": f"Do job {tool} of department {server}"}
                for tool in range(TOOLS)
            ]
            for server in range(SERVERS)
        }
    )
    names = list(catalog.tools)
    assert len(names) == 10_000
    wanted: dict[str, set[str]] = {}
    rows: list[dict[str, object]] = []
    for number in range(USERS):
        user = f"u{number}"
        own = set(chance.sample(names, 3))
        rows += [_row(user, "tool", name) for name in own]
        if number % 2:
            server = f"s{chance.randrange(SERVERS)}"
            rows.append(_row(user, "server", server))
            own |= {f"{server}__t{tool}" for tool in range(TOOLS)}
        wanted[user] = own

    database = Database(f"sqlite:///{tmp_path / 'armory.db'}")
    accounts = Accounts(database, MemoryCache(), AccountSettings(enabled=True))
    await accounts.open()
    async with database.write() as connection:
        people = [_user(user) for user in wanted]
        await connection.execute(insert(users), people)
        await connection.execute(insert(installations), rows)
    policy = Policy(packs=accounts.scopes)
    retriever = Retriever(HashingEmbedder(), ExactIndex(), make_rankers())
    await retriever.index(list(catalog.tools.values()))

    started = time.perf_counter()
    for user in wanted:
        await accounts.scopes.admit(Principal(user, user))
        principal = Principal(user, user)
        assert policy.visible_tools(catalog, principal).names == wanted[user]
    assert time.perf_counter() - started < 60

    strangers = chance.sample(names, 50)
    for user in chance.sample(sorted(wanted), 25):
        principal = Principal(user, user)
        visible = policy.visible_tools(catalog, principal)
        # words that fit thousands of others better must not push out the three that are there
        ranking = await retriever.rank(
            Query(("Do job 5 of department 5",), ranker="hybrid"), visible
        )
        ranked = {ranking.record(position).name for position in ranking.order.tolist()}
        assert ranked == wanted[user]
        for name in strangers:
            assert policy.allows(principal, name) is (name in wanted[user])
    await retriever.aclose()
    await accounts.close()


def _row(user: str, kind: str, value: str) -> dict[str, object]:
    return {
        "user_id": user,
        "kind": kind,
        "value": value,
        "is_active": True,
        "installed_at_ms": now_ms(),
    }


def _user(user: str) -> dict[str, object]:
    return {"id": user, "plan": "free", "is_active": True, "created_at_ms": now_ms()}
