"""Which point each tool is, made from the last state."""

from __future__ import annotations

import random

import pytest

from armory.retrieval.indexes import qdrant_catalog
from armory.retrieval.indexes.qdrant_catalog import CatalogPoints
from armory.retrieval.indexes.qdrant_points import point_id
from armory.retrieval.ports import Row


def edited(rows: list[Row], chance: random.Random) -> list[Row]:
    """Another state: some changed in their place, some gone, some new, perhaps in another order."""
    found = list(rows)
    for i in chance.sample(range(len(found)), k=chance.choice([0, 1, 3, len(found)])):
        row = found[i]
        server = chance.choice([row.server, "other"])
        found[i] = Row(row.key, f"digest{chance.randrange(chance.choice([30, 9_999]))}", server)
    match chance.randrange(4):
        case 0:
            del found[chance.randrange(len(found))]
        case 1:
            found.append(Row(f"new{chance.random()}", f"digest{chance.randrange(30)}", "s"))
        case 2:
            chance.shuffle(found)
        case _:
            pass
    return found


@pytest.mark.parametrize("seed", range(20))
def test_places_after_others_are_those_made_anew(seed: int) -> None:
    chance = random.Random(seed)
    rows = [Row(f"t{i}", f"digest{i % 30}", f"s{i % 3}") for i in range(40)]
    places = CatalogPoints(rows)
    for _ in range(12):
        rows = edited(rows, chance)
        places = CatalogPoints(rows, places)
        assert places.are_of(rows)
        assert places.ids == [point_id(row) for row in rows]
        for point in places.ids:
            assert list(places.rows_of(point)) == [
                i for i, p in enumerate(places.ids) if p == point
            ]
        names = [places.server_names[code] for code in places.servers.tolist()]
        assert names == [row.server for row in rows]
        assert places.sampled == list(range(len(rows)))
        assert places.digests == {row.key: row.digest for row in rows}
    assert places.rows_of("unknown") == ()


def test_a_changed_tool_costs_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(f"t{i}", f"digest{i}", "s") for i in range(100)]
    places = CatalogPoints(rows)
    hashed: list[Row] = []

    def counted(row: Row) -> str:
        hashed.append(row)
        return point_id(row)

    monkeypatch.setattr(qdrant_catalog, "point_id", counted)
    changed = Row("t5", "changed", "s")
    places = CatalogPoints([*rows[:5], changed, *rows[6:]], places)
    assert hashed == [changed]
    CatalogPoints([*rows[:5], changed, *rows[7:]], places)
    assert hashed == [changed]
