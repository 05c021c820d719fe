"""Large results of one caller are renamed one after the other, beside those of others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.principal import Principal
from armory.gateway.results.answers import Answers, look_through
from armory.protocol.link import Reply
from armory.testing.front import result

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


def links(count: int, name: str) -> dict[str, Any]:
    link = {"type": "resource_link", "uri": "file:///a", "name": name}
    return {"content": [link] * count}


LARGE, LARGER = links(250, "x" * 60), links(1_000, "x" * 2_000)
"""One that is renamed in a step or two, and one that takes dozens."""


def compacted(*_: object) -> None:
    """Nobody asks for TOON here."""


@pytest.mark.parametrize("again", ["ann/laptop", "ann/phone"])
async def test_who_waits_for_whom(bench: Bench, again: str) -> None:
    answers = Answers(bench.gateway.tasks, compacted)
    done: list[str] = []

    async def renamed(what: str, principal: Principal, reply: Reply) -> None:
        exposed = await answers.exposed(bench.context(principal=principal), "up", reply)
        assert exposed.result is not None
        assert b'"uri":"up+file:///a"' in bytes(exposed.result)
        done.append(what)

    larger, large, others = (result(value) for value in (LARGER, LARGE, LARGE))
    for reply in (larger, large, others):
        await look_through(reply)  # so that each begins with its renaming
    async with asyncio.timeout(30):
        await asyncio.gather(
            renamed("ann's first", Principal("ann/laptop", "ann"), larger),
            renamed("ann's second", Principal(again, "ann"), large),
            renamed("bob's", Principal("bob"), others),
        )
    assert done == ["bob's", "ann's first", "ann's second"]
