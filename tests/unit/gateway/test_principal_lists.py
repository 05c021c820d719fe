"""The lists of single principals: who waits for them, and for how long."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.catalog import LARGE, ServerLists
from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL
from armory.gateway.settings import GatewaySettings
from armory.gateway.views import principal_views
from armory.protocol.link import Owner
from armory.testing.front import tool
from armory.testing.waiting import until

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


@pytest.mark.parametrize("more", [0, 1])
async def test_long_lists_are_gone_through_beside_the_loop_once_for_all_who_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    own = ServerLists(tools=[tool(f"own{number}", "mine") for number in range(LARGE + more)])
    made: list[int] = []
    go = threading.Event()
    build = principal_views.build_catalog

    def noted(*lists: Any, **named: Any) -> Any:
        made.append(threading.get_ident())
        if more:
            assert go.wait(10)
        return build(*lists, **named)

    async def fetch(_server: str, _owner: Owner, _declared: object) -> ServerLists:
        return own

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    monkeypatch.setattr(principal_views, "build_catalog", noted)
    gateway = bench.gateway
    gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    request = bench.context(principal=ANN.principal)
    leaving, *staying = (asyncio.create_task(gateway.context(request)) for _ in range(3))
    async with asyncio.timeout(10):
        await until(lambda: bool(made))
        leaving.cancel()
        go.set()
        views = [(await one).view for one in staying]
    assert len(views[0].catalog.tools) == LARGE + more
    assert views[0] is views[1]
    assert (await gateway.context(request)).view is views[0]
    (thread,) = made
    assert (thread == threading.get_ident()) == (not more)
    await gateway.close()
