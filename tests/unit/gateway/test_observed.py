"""What stands in for pool and retriever where somebody watches can do all that they can."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway import ports
from armory.gateway.observed import Address, ObservedPool, ObservedRetriever
from armory.protocol.link import Call, Owner, Reply
from armory.telemetry import conventions as c
from armory.telemetry.durations import Buckets
from armory.telemetry.sampling import DrawnIds, Sampling
from armory.telemetry.tracing import Tracing
from armory.testing.front import ScriptedPool, ScriptedUpstream, raws, result


@pytest.mark.parametrize(
    ("watched", "plain"), [(ObservedPool, ports.Pool), (ObservedRetriever, ports.Retriever)]
)
def test_nothing_is_missing(watched: type, plain: type) -> None:
    wanted = {name for name in vars(plain) if not name.startswith("_")}
    assert wanted
    assert wanted - vars(watched).keys() == set()


async def _answer(_call: Call, _owner: Owner) -> Reply:
    return result({"contents": []})


@pytest.mark.anyio
async def test_each_tool_has_its_series_with_each_upstream_and_outcome() -> None:
    async def answer(call: Call, _owner: Owner) -> Reply:
        return result({"content": [], "isError": b"bad" in bytes(call.params["name"])})

    taken, places = Buckets({}), {"web": Address("h", 80), "own": Address()}
    tracing = Tracing(None, taken, Sampling({}), DrawnIds(), queries=False)
    upstreams = {name: ScriptedUpstream(ServerLists(), answer) for name in places}
    pool = ObservedPool(ScriptedPool(upstreams), tracing, places.__getitem__)
    asked = [(server, name) for server in places for name in ("one", "two", "bad")]
    for header in (True, False, True):
        for server, name in asked:
            call = Call("tools/call", raws({"name": name}), name_header=name if header else None)
            await pool.request(server, Owner(ANONYMOUS), call)
    (metric,) = taken.taken()
    told: dict[tuple[object, ...], int] = {}
    for point in metric.data.data_points:
        assert isinstance(point, HistogramDataPoint)
        of = point.attributes or {}
        told[of.get(c.SERVER_ADDRESS), of[c.TOOL], of.get(c.ERROR)] = point.count
    wrong = {"bad": c.TOOL_ERROR}
    assert told == {(places[at].host, name, wrong.get(name)): 3 for at, name in asked}


@pytest.mark.anyio
async def test_uris_are_no_series_of_their_own() -> None:
    taken = Buckets({})
    tracing = Tracing(None, taken, Sampling({}), DrawnIds(), queries=False)
    upstreams = {"web": ScriptedUpstream(ServerLists(), _answer)}
    pool = ObservedPool(ScriptedPool(upstreams), tracing, lambda _: Address("h", 80))
    for uri in ("mem://one", "mem://two"):
        call = Call("resources/read", raws({"uri": uri}), name_header=uri)
        await pool.request("web", Owner(ANONYMOUS), call)
    (metric,) = taken.taken()
    (point,) = metric.data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert point.count == 2
    assert (point.attributes or {})[c.METHOD] == "resources/read"
