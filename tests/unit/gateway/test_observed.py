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
