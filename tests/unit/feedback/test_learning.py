from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from armory.accounts.users import Users
from armory.domain.principal import Principal
from armory.domain.results import CallOutcome
from armory.errors import BackendError
from armory.feedback.learning import Learning
from armory.feedback.store import StoredUses
from armory.feedback.vectors import FeedbackVectors
from armory.retrieval.ports import FloatArray
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.testing.waiting import eventually, until

ANN = Principal("ann", user="ann")
BOB = Principal("bob", user="bob")


@dataclass
class Model:
    """An embedder of `dimension` dimensions: equal texts, equal vectors."""

    identity: str = "one"
    dimension: int = 8
    fails: bool = False
    seen: list[str] = field(default_factory=list[str])

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return await self.embed_queries(texts)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        if self.fails:
            raise BackendError("the model is away")
        self.seen.extend(texts)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row, sum(map(ord, text)) % self.dimension] = 1
        return vectors

    async def aclose(self) -> None:
        pass


class Engine:
    def __init__(self, model: Model) -> None:
        self.embedder = model

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        return await self.embedder.embed_queries(texts)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await opened.open()
    yield opened
    await opened.close()


def learner(
    database: Database,
    model: Model,
    redacted: Callable[[str], str] = str,
    feed: ChangeFeed | None = None,
) -> Learning:
    feed = feed or ChangeFeed(database, MemoryCache())
    engine, stored = Engine(model), StoredUses(database, feed)
    return Learning(FeedbackVectors(), lambda: engine, stored, feed, redacted, batch_s=0.0)


def called(
    learning: Learning, who: Principal, tool: str, query: str | None, *, ok: bool = True
) -> None:
    learning.called(who, CallOutcome(tool, ok=ok, latency_ms=1, query=query))


async def kept(learning: Learning, number: int) -> None:
    await until(lambda: len(learning.uses.entries()) == number)


async def stored(uses: StoredUses, number: int) -> None:
    async def is_so() -> bool:
        return await uses.count() == number

    await eventually(is_so)


@pytest.mark.anyio
async def test_only_successes_after_a_query_are_learned(database: Database) -> None:
    learning = learner(database, Model(), lambda text: text.replace("hunter2", "[redacted]"))
    await learning.start()
    quiet = Principal("q", user="q", scopes=frozenset({"no-learning"}))
    called(learning, ANN, "a__tool", "deploy", ok=False)
    called(learning, ANN, "a__tool", None)
    called(learning, quiet, "a__tool", "something private")
    called(learning, ANN, "a__tool", "use A__Tool now")
    called(learning, ANN, "a__tool", "ship it with hunter2")
    called(learning, ANN, "a__tool", "ship it with hunter2")
    called(learning, BOB, "a__tool", "ship")
    await kept(learning, 2)
    await learning.close()
    found, _ = await StoredUses(database, ChangeFeed(database, MemoryCache())).since()
    assert {(use.user, use.query) for use in found} == {
        ("ann", "ship it with [redacted]"),
        ("bob", "ship"),
    }


@pytest.mark.anyio
async def test_another_model_reads_the_words_again(database: Database) -> None:
    first = learner(database, Model())
    await first.start()
    called(first, ANN, "a__tool", "ship it")
    called(first, BOB, "a__tool", "ship it now")
    called(first, BOB, "a__tool", "off it goes")
    await kept(first, 3)
    await first.close()
    for dimension, embedded in ((16, 3), (16, 0)):
        other = Model("two", dimension)
        again = learner(database, other)
        await again.start()
        await kept(again, 3)
        assert len(other.seen) == embedded, "vectors are stored"
        query = await other.embed_queries(["ship it"])
        recalled = again.uses.recall(query, "ann")
        assert list(recalled.names) == ["a__tool"]
        assert recalled.cosine[0, 0] == pytest.approx(1, abs=1e-3)
        await again.close()


@pytest.mark.anyio
async def test_forgetting_reaches_a_gateway_that_runs(database: Database) -> None:
    learning = learner(database, Model())
    await learning.start()
    for who in (ANN, BOB):
        called(learning, who, "a__tool", "ship it")
        called(learning, who, "b__tool", "ship it")
    elsewhere = StoredUses(database, ChangeFeed(database, MemoryCache()))
    await stored(elsewhere, 4)
    assert await elsewhere.forget(user="ann", tool="a__tool") == 1
    feed = learning._feed  # pyright: ignore[reportPrivateUsage]
    await feed.poll()
    await kept(learning, 3)
    assert await elsewhere.forget(user="nobody") == 0
    assert await elsewhere.forget() == 3
    await feed.poll()
    await kept(learning, 0)
    await learning.close()


@pytest.mark.anyio
async def test_what_could_not_be_embedded_is_learned_later(database: Database) -> None:
    model = Model(fails=True)
    learning = learner(database, model)
    await learning.start()
    called(learning, ANN, "a__tool", "ship it")
    await asyncio.sleep(0)
    model.fails = False
    called(learning, ANN, "a__tool", "off it goes")
    await kept(learning, 2)
    await learning.close()


@pytest.mark.anyio
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_what_a_deleted_user_did_a_moment_ago_is_not_learned(
    database: Database, elsewhere: bool
) -> None:
    feed, model = ChangeFeed(database, MemoryCache()), Model(fails=True)
    await feed.poll()
    learning = learner(database, model, feed=feed)
    await learning.start()
    called(learning, ANN, "a__tool", "a divorce")
    there = ChangeFeed(database, MemoryCache()) if elsewhere else feed
    await Users(database, there).delete("ann")
    model.fails = False

    async def learns() -> bool:  # what waits with hers goes as well
        called(learning, BOB, "a__tool", "ship it")
        return await StoredUses(database, feed).count() > 0

    await eventually(learns)
    await learning.close()
    found, _ = await StoredUses(database, feed).since()
    assert [use.user for use in found] == ["bob"]


@pytest.mark.anyio
async def test_the_oldest_go_first(database: Database) -> None:
    learning = learner(database, Model())
    await learning.start()
    for i in range(6):
        called(learning, ANN, f"t__{i}", "ship it")
    await kept(learning, 6)
    await learning.close()
    small = StoredUses(database, ChangeFeed(database, MemoryCache()), most=4)
    assert len((await small.since())[0]) == 4
    await small.prune(30)
    assert await small.count() <= 4
    kept_now, _ = await small.since()
    assert sum(use.tool == "t__0" for use in kept_now) <= 1
