"""What came since lies beside a large catalog's vectors; every cosine is the one of all anew."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.indexes import layers as layers_module
from armory.retrieval.indexes import quantized
from armory.retrieval.indexes.exact import ExactIndex, ExactView
from armory.retrieval.indexes.layers import Layers
from armory.retrieval.ports import FloatArray, Row
from tests.vectors import unit

pytestmark = pytest.mark.anyio
DIM = 16


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized, "_FROM", 100)
    monkeypatch.setattr(quantized.platform, "machine", lambda: "x86_64")


class Catalog:
    """Tools that come, go and change, in one index that goes on."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.index, self.seed = ExactIndex(), 100
        self.rows = [Row(f"t{i}", "0") for i in range(200)]
        self.vectors = {row.key: unit((1 + i % 2, DIM), i) for i, row in enumerate(self.rows)}

    def fresh(self, key: str) -> dict[str, FloatArray]:
        self.seed += 1
        self.vectors[key] = unit((1 + self.seed % 3, DIM), self.seed)
        return {key: self.vectors[key]}

    def step(self, kind: int) -> dict[str, FloatArray]:
        place = int(self.rng.integers(len(self.rows)))
        key = self.rows[place].key
        if kind == 0:
            self.rows[place] = Row(key, f"{self.seed}")
            return self.fresh(key)
        if kind == 1:
            self.rows.insert(place, Row(f"n{self.seed}", "0"))
            return self.fresh(f"n{self.seed}")
        if kind == 2:
            del self.rows[place]
        else:
            self.rows.append(self.rows.pop(place))
        return {}


async def assert_as_anew(view: ExactView, catalog: Catalog) -> None:
    anew = await ExactIndex().update(
        catalog.rows, {row.key: catalog.vectors[row.key] for row in catalog.rows}
    )
    queries, total = unit((3, DIM), 9), len(catalog.rows)
    for allowed in (None, np.arange(0, total, 2), np.arange(0, total, 17), np.arange(3)):
        hits = await view.search(queries, 10, allowed)
        wanted = await anew.search(queries, 10, allowed)
        assert hits.cosine.tobytes() == wanted.cosine.tobytes()
        assert hits.mean.tobytes() == wanted.mean.tobytes()
    rows = np.array([total - 1, 0, total // 2])
    np.testing.assert_array_equal(await view.vectors(rows), await anew.vectors(rows))


@pytest.mark.parametrize("few", [64, 3], ids=["beside", "laid together"])
async def test_a_state_made_of_the_last_is_the_one_made_anew(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers_module, "_FEW", few)
    catalog = Catalog()
    views = [await catalog.index.update(catalog.rows, catalog.vectors)]
    for _ in range(30):
        changed: dict[str, FloatArray] = {}
        for _ in range(int(catalog.rng.integers(1, 4))):
            changed |= catalog.step(int(catalog.rng.integers(4)))
        there = {row.key for row in catalog.rows}
        changed = {key: found for key, found in changed.items() if key in there}
        views.append(await catalog.index.update(catalog.rows, changed))
        await assert_as_anew(views[-1], catalog)


async def test_one_changed_tool_rounds_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog()
    await catalog.index.update(catalog.rows, catalog.vectors)
    sizes: list[int] = []
    real = layers_module.QuantizedVectors

    def watched(vectors: layers_module.Segments) -> quantized.QuantizedVectors:
        sizes.append(len(vectors))
        return real(vectors)

    monkeypatch.setattr(layers_module, "QuantizedVectors", watched)
    changed = catalog.step(0)
    await catalog.index.update(catalog.rows, changed)
    assert sizes == [1]


async def test_fewer_than_is_worth_rounding_are_laid_together() -> None:
    catalog = Catalog()
    view = await catalog.index.update(catalog.rows, catalog.vectors)
    assert view.layers.quantized
    del catalog.rows[60:]
    view = await catalog.index.update(catalog.rows, {})
    assert not view.layers.quantized
    assert isinstance(view.layers, Layers)
    await assert_as_anew(view, catalog)
