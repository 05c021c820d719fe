from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from armory.domain.principal import Principal
from armory.domain.query import Query
from armory.retrieval.ports import FloatArray
from armory.retrieval.uses import UseVectors
from armory.runtime.learning import USES, Learning, read_uses

ANN = Principal("ann", user="ann")


class Embedder:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.done = asyncio.Event()

    async def embedding(self, text: str) -> FloatArray | None:
        self.seen.append(text)
        if text == "last":
            self.done.set()
        vector = np.zeros(4, np.float32)
        vector[len(text) % 4] = 1
        return vector


def listed(learning: Learning, principal: Principal, *texts: str) -> None:
    learning.listed(principal, Query(texts), visible=1, returned=1)


def called(learning: Learning, principal: Principal, tool: str, *, ok: bool = True) -> None:
    learning.called(principal, tool, ok=ok, latency_ms=1)


@pytest.mark.anyio
async def test_only_a_success_after_a_query_of_the_same_caller_is_learned(tmp_path: Path) -> None:
    embedder = Embedder()
    learning = Learning(UseVectors(), lambda: embedder, tmp_path, "m")
    await learning.start()
    silent = Principal("bob", user="bob", scopes=frozenset({"no-learning"}))
    called(learning, ANN, "a__tool")
    listed(learning, ANN, "deploy the site")
    called(learning, ANN, "a__tool", ok=False)
    called(learning, Principal("eve", user="eve"), "a__tool")
    listed(learning, silent, "something private")
    called(learning, silent, "a__tool")
    listed(learning, ANN, "use A__Tool now")
    called(learning, ANN, "a__tool")
    listed(learning, ANN, "ship it", "last")
    called(learning, ANN, "a__tool")
    async with asyncio.timeout(5):
        await embedder.done.wait()
    await learning.close()
    assert embedder.seen == ["ship it", "last"]
    kept = read_uses(tmp_path / USES, "m")
    assert {(entry.tool, entry.user) for entry in kept} == {("a__tool", "ann")}
    assert len(kept) == 2
    assert read_uses(tmp_path / USES, "another model") == []


@pytest.mark.anyio
async def test_what_is_kept_comes_back_and_rubbish_does_not_hurt(tmp_path: Path) -> None:
    embedder = Embedder()
    first = Learning(UseVectors(floor=0.5), lambda: embedder, tmp_path, "m")
    await first.start()
    listed(first, ANN, "last")
    called(first, ANN, "a__tool")
    async with asyncio.timeout(5):
        await embedder.done.wait()
    await first.close()
    second = Learning(UseVectors(floor=0.5), lambda: embedder, tmp_path, "m")
    await second.start()
    query = np.array([[1, 0, 0, 0]], np.float32)
    assert list(second.uses.recall(query, None).names) == ["a__tool"]
    await second.close()
    (tmp_path / USES).write_bytes(b"rubbish")
    assert read_uses(tmp_path / USES, "m") == []
