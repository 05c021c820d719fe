"""Lists of single principals that are said to change without end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL
from armory.gateway.settings import GatewaySettings
from armory.protocol.link import Owner
from armory.testing.waiting import until

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
ANN = Owner(Principal("ann"))


async def test_they_are_fetched_less_and_less_often(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = bench.gateway.principal_lists
    fetched: list[float] = []

    async def fetch(server: str, owner: Owner, _declared: object) -> ServerLists:
        fetched.append(time.monotonic())
        for key in (bench.pool.key(server, owner), ""):
            lists.on_list_changed(server, key)
        return bench.pool.upstreams[server].lists

    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    await lists.prepare(ANN, ALL, current=False)
    lists.on_list_changed("up", "")
    await until(lambda: len(fetched) >= 6)
    await bench.gateway.close()
    assert fetched[5] - fetched[0] > 0.05 + 0.1 + 0.2 + 0.4
