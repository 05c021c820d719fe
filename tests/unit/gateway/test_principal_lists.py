"""The lists of single principals: who waits for them, and for how long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL
from armory.gateway.settings import GatewaySettings
from armory.protocol.link import Owner

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
ANN = Owner(Principal("ann"))


async def test_whoever_comes_while_lists_are_fetched_first_waits_for_them_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    async def fetch(server: str, owner: Owner, _declared: object) -> ServerLists:
        asked.set()
        await told.wait()
        return bench.pool.upstreams[server].lists

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    lists = bench.gateway.principal_lists
    first = asyncio.create_task(lists.prepare(ANN, ALL, current=False))
    async with asyncio.timeout(5):
        await asked.wait()
        second = asyncio.create_task(lists.prepare(ANN, ALL, current=False))
        await asyncio.sleep(0)
        assert not second.done()
        told.set()
        await asyncio.gather(first, second)
    (held,) = lists.held(ANN, ALL)
    assert held.lists is not None
    await bench.gateway.close()
