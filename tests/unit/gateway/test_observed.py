"""What stands in for pool and retriever where somebody watches can do all that they can."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.gateway import ports
from armory.gateway.observed import ObservedPool, ObservedRetriever
from armory.observability.operation import CURRENT, Operation
from armory.protocol.link import Call, Hop, Owner, Reply
from armory.telemetry import conventions as c
from armory.telemetry.durations import Buckets
from armory.telemetry.sampling import Sampling
from armory.telemetry.tracing import Tracing
from armory.testing.front import ScriptedPool, ScriptedUpstream, raws, result


@pytest.mark.parametrize(
    ("watched", "plain"), [(ObservedPool, ports.Pool), (ObservedRetriever, ports.Retriever)]
)
def test_nothing_is_missing(watched: type, plain: type) -> None:
    wanted = {name for name in vars(plain) if not name.startswith("_")}
    assert wanted
    assert wanted - vars(watched).keys() == set()


Answer = Callable[[Call, Owner], Awaitable[Reply]]


def counted(taken: Buckets) -> list[tuple[Mapping[str, Any], int]]:
    """(attributes, count) of each series of the one histogram."""
    (metric,) = taken.taken()
    found: list[tuple[Mapping[str, Any], int]] = []
    for point in metric.data.data_points:
        assert isinstance(point, HistogramDataPoint)
        found.append((point.attributes or {}, point.count))
    return found


async def _answer(_call: Call, _owner: Owner) -> Reply:
    return result({"contents": []})


@pytest.mark.anyio
async def test_each_tool_has_its_series_with_each_upstream_and_outcome() -> None:
    hops = {"web": Hop("2026-07-28", "h", 80), "own": Hop("2026-07-28")}

    def answering(hop: Hop) -> Answer:
        async def answer(call: Call, _owner: Owner) -> Reply:
            if call.hop is not None:
                call.hop = hop  # as a link does
            return result({"content": [], "isError": b"bad" in bytes(call.params["name"])})

        return answer

    taken = Buckets({})
    tracing = Tracing(None, taken, Sampling({}), queries=False)
    upstreams = {name: ScriptedUpstream(ServerLists(), answering(hops[name])) for name in hops}
    pool = ObservedPool(ScriptedPool(upstreams), tracing, lambda _: (None, None))
    asked = [(server, name) for server in hops for name in ("one", "two", "bad")]
    for header in (True, False, True):
        for server, name in asked:
            call = Call("tools/call", raws({"name": name}), name_header=name if header else None)
            await pool.request(server, Owner(ANONYMOUS), call)
    assert set(taken.usual) == {
        (hop, "tools/call", name) for hop in hops.values() for name in ("one", "two")
    }
    told: dict[tuple[object, ...], int] = {}
    for of, count in counted(taken):
        assert of[c.VERSION] == "2026-07-28"
        told[of.get(c.SERVER_ADDRESS), of[c.TOOL], of.get(c.ERROR)] = count
    wrong = {"bad": c.TOOL_ERROR}
    assert told == {(hops[at].host, name, wrong.get(name)): 3 for at, name in asked}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "told"),
    [(UpstreamUnavailable("away"), UpstreamUnavailable.code), (KeyError("defect"), "KeyError")],
)
async def test_what_was_not_sent_has_the_address_that_it_was_for(
    error: Exception, told: str
) -> None:
    async def answer(_call: Call, _owner: Owner) -> Reply:
        raise error

    taken = Buckets({})
    tracing = Tracing(None, taken, Sampling({}), queries=False)
    upstreams = {"web": ScriptedUpstream(ServerLists(), answer)}
    pool = ObservedPool(ScriptedPool(upstreams), tracing, lambda _: ("h", 80))
    operation = Operation()
    token = CURRENT.set(operation)
    try:
        with pytest.raises(type(error)):
            await pool.request("web", Owner(ANONYMOUS), Call("tools/call", raws({"name": "a"})))
    finally:
        CURRENT.reset(token)
    assert (operation.upstream, operation.failure) == ("web", told)
    ((of, count),) = counted(taken)
    assert (of[c.SERVER_ADDRESS], of[c.SERVER_PORT], of[c.ERROR], count) == ("h", 80, told, 1)
    assert c.VERSION not in of
    assert taken.usual == {}


@pytest.mark.anyio
async def test_methods_that_nobody_knows_are_one_series() -> None:
    hop = Hop("2026-07-28", "h", 80)

    async def answer(call: Call, _owner: Owner) -> Reply:
        call.hop = hop  # as a link does
        return result({})

    taken = Buckets({})
    tracing = Tracing(None, taken, Sampling({}), queries=False)
    upstreams = {"web": ScriptedUpstream(ServerLists(), answer)}
    pool = ObservedPool(ScriptedPool(upstreams), tracing, lambda _: ("h", 80))
    for method in ("x/one", "x/two", "ping"):
        for _ in range(2):
            await pool.request("web", Owner(ANONYMOUS), Call(method, {}))
    assert {of[c.METHOD]: count for of, count in counted(taken)} == {c.OTHER: 4, "ping": 2}
    assert set(taken.usual) == {(hop, "ping", None)}


@pytest.mark.anyio
async def test_uris_are_no_series_of_their_own() -> None:
    taken = Buckets({})
    tracing = Tracing(None, taken, Sampling({}), queries=False)
    upstreams = {"web": ScriptedUpstream(ServerLists(), _answer)}
    pool = ObservedPool(ScriptedPool(upstreams), tracing, lambda _: ("h", 80))
    for uri in ("mem://one", "mem://two"):
        call = Call("resources/read", raws({"uri": uri}), name_header=uri)
        await pool.request("web", Owner(ANONYMOUS), call)
    ((of, count),) = counted(taken)
    assert count == 2
    assert of[c.METHOD] == "resources/read"
