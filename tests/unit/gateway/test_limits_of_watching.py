"""What makes work for upstreams counts against the caller's rate, also where nothing is read."""

from __future__ import annotations

import pytest

from armory.domain.principal import Principal
from armory.errors import RateLimited
from armory.gateway.gateway import Gateway, Services
from armory.protocol.errors import RpcError
from armory.testing.front import raws
from armory.wire.listening import start_listening
from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


class Counting:
    """A limiter that counts, and lets so many through."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        await self.take(principal)

    async def take(self, principal: Principal) -> None:
        if not self.left:
            raise RateLimited("slow down", retry_after_s=2.0)
        self.left -= 1


def limited(bench: Bench, allowed: int) -> Counting:
    counting = Counting(allowed)
    gateway = Gateway(bench.pool, bench.retriever, services=Services(limiter=counting))
    gateway.publish(bench.gateway.view.catalog)
    bench.gateway = gateway
    return counting


async def test_a_search_that_is_refused_takes_nothing(bench: Bench) -> None:
    counting = limited(bench, 1)
    for key, value in (("explain", "yes"), ("threshold", 2), ("ranker", "best")):
        with pytest.raises(RpcError, match=key):
            await bench.call("search_tools", {"query": "1"}, meta={f"dev.armory/{key}": value})
    assert counting.left == 1


async def test_a_resource_that_is_watched_counts(bench: Bench) -> None:
    limited(bench, 2)
    methods = bench.gateway.session_methods
    context = bench.context("legacy")
    await methods.subscribe(context, raws({"uri": "up+file:///a"}))
    await methods.unsubscribe(context, raws({"uri": "up+file:///a"}))
    with pytest.raises(RpcError):  # nor can names be guessed
        await methods.unsubscribe(context, raws({"uri": "none+file:///a"}))
    for ask in (methods.subscribe, methods.unsubscribe):
        with pytest.raises(RateLimited):
            await ask(context, raws({"uri": "none+file:///a"}))
    with pytest.raises(RateLimited):
        await methods.subscribe(context, raws({"uri": "up+file:///a"}))


async def test_to_listen_counts_once_however_much_is_watched(bench: Bench) -> None:
    counting = limited(bench, 1)
    uris = ["up+file:///a", "up+file:///b"]

    async def listen(wanted: object) -> None:
        params = raws({"notifications": wanted})
        await (await start_listening(bench.gateway, bench.context(), b"1", params)).end()

    await listen({"resourceSubscriptions": uris})
    assert counting.left == 0
    with pytest.raises(RateLimited):
        await listen({"resourceSubscriptions": uris})
    assert len(bench.gateway.changes) == 0
