"""What is in use on a shared Qdrant server stays; what nobody uses any more goes, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
from qdrant_client import QdrantClient

from armory.retrieval.indexes.qdrant_access import Access
from armory.retrieval.indexes.qdrant_points import LAYOUT, Points, point_id
from armory.retrieval.indexes.qdrant_upkeep import TURN_S, Upkeep
from armory.retrieval.ports import FloatArray, Row
from tests.contract.qdrant_server import QdrantServer

pytestmark = pytest.mark.anyio
DIM = 4
DAY = 86_400.0
VECTOR: FloatArray = np.full((1, DIM), 0.5, np.float32)


class Gateway:
    """One gateway's points of one model, at a time that the test sets."""

    def __init__(self, url: str, model: str, now: list[float]) -> None:
        self.access = Access(QdrantClient(url=url, check_compatibility=False), url, local=False)
        self.points = Points(f"own-{model}-v{LAYOUT}", DIM, local=False, now=lambda: now[0])
        self.ids: set[str] = set()
        self.upkeep = Upkeep(
            self.access, self.points, "own", 30, lambda: self.ids, now=lambda: now[0]
        )

    async def write(self, *keys: str) -> None:
        rows = {point_id(row): row for row in (Row(key, key, "s") for key in keys)}
        given = [(identifier, row, VECTOR) for identifier, row in rows.items()]

        def work(client: QdrantClient) -> None:
            self.points.ensure(client)
            self.points.put(client, given)

        await self.access.run(work)
        self.ids |= rows.keys()
        await self.upkeep.register()

    async def count(self) -> int:
        return await self.access.run(self.points.count)


Maker = Callable[[str], Gateway]


@pytest.fixture
def now() -> list[float]:
    return [1_000_000.0]


@pytest.fixture
async def gateway(
    server: QdrantServer, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Maker]:
    monkeypatch.setattr("armory.retrieval.indexes.qdrant_upkeep.SETTLE_S", 0.0)
    made: list[Gateway] = []

    def make(model: str) -> Gateway:
        made.append(Gateway(server.url, model, now))
        return made[-1]

    yield make
    for one in made:
        await one.access.aclose()


async def test_what_runs_keeps_its_points_and_what_is_gone_is_collected(
    gateway: Maker, now: list[float]
) -> None:
    gone, idle = gateway("m"), gateway("m")
    await gone.write("a", "b", "shared")
    await idle.write("shared", "mine")
    assert await idle.count() == 4
    for _ in range(40):  # a gateway that indexes nothing anew for weeks
        now[0] += DAY
        await idle.upkeep.round()
    assert await idle.count() == 2
    assert await idle.access.run(lambda c: idle.points.present(c, idle.ids)) == idle.ids


async def test_collections_of_models_that_nobody_uses_go(
    server: QdrantServer, gateway: Maker, now: list[float]
) -> None:
    old, slow, current = gateway("old"), gateway("slow"), gateway("current")
    await old.write("a")
    await slow.write()  # it made its collection and embeds for a month
    await current.write("a")
    server.answer("PUT", "/collections/somebody-elses", {"vectors": {"size": 1, "distance": "Dot"}})
    now[0] += 29 * DAY
    await slow.upkeep.register()
    now[0] += 2 * DAY
    await current.upkeep.round()
    assert set(server.collections()) == {
        "somebody-elses",
        f"own-slow-v{LAYOUT}",
        f"own-current-v{LAYOUT}",
        f"own-registry-v{LAYOUT}",
    }


async def test_one_gateway_at_a_time_collects(
    server: QdrantServer, gateway: Maker, now: list[float]
) -> None:
    first, second = gateway("m"), gateway("m")
    await first.write("a")
    await second.write("b")

    def deletions() -> int:
        return sum(path.endswith("/points/delete") for _, path, _ in server.sizes)

    await first.upkeep.round()
    await second.upkeep.round()
    assert deletions() == 1
    now[0] += TURN_S + 1
    await second.upkeep.round()
    await first.upkeep.round()
    assert deletions() == 2


async def test_a_point_that_is_taken_up_again_stays(gateway: Maker, now: list[float]) -> None:
    """Unused for long, then wanted by a catalog in the very moment that another one collects."""
    gone, back, other = gateway("m"), gateway("m"), gateway("m")
    await gone.write("a")
    now[0] += 31 * DAY
    await other.write("b")
    found = await back.access.run(lambda c: back.points.present(c, gone.ids))
    assert found == gone.ids
    await other.upkeep.round()
    assert await other.count() == 2
