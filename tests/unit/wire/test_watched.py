"""What is measured of a client's requests, however they write the names that they ask for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pytest
from msgspec import Raw
from opentelemetry.sdk.metrics.export import HistogramDataPoint

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.gateway.observed import ObservedPool
from armory.protocol.link import Call, Hop, Owner, Reply
from armory.telemetry import conventions as c
from armory.telemetry.conventions import Series
from armory.telemetry.durations import Buckets
from armory.telemetry.sampling import Sampling
from armory.telemetry.spans import Span
from armory.telemetry.tracing import Tracing
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, tool
from armory.wire.caller import Caller
from armory.wire.interaction.interactions import Interactions
from armory.wire.interaction.state import OwnedByReplica
from armory.wire.observed import Observers, dispatcher_of
from armory.wire.requests import modern_request

pytestmark = pytest.mark.anyio


class Standing(Buckets):
    """Buckets that know what they were told to know series by."""

    def __init__(self) -> None:
        super().__init__({})
        self.known: set[Hashable] = set()

    def record(
        self, name: str, seconds: float, series: Series, usual: Hashable | None = None
    ) -> None:
        """As `Buckets.record`."""
        if usual is not None:
            self.known.add(usual)
        super().record(name, seconds, series, usual)


async def nowhere(_data: bytes) -> None:
    """Nothing is said before the answer."""


async def _answer(call: Call, _owner: Owner) -> Reply:
    if call.hop is not None:
        call.hop = Hop("2026-07-28")  # as a link does
    return result({"content": []}, "modern")


async def test_a_tool_has_one_series_however_its_name_is_written() -> None:
    upstream = ScriptedUpstream(ServerLists(tools=[tool("abc", "")]), _answer, "modern")
    taken = Standing()
    tracing = Tracing(None, taken, Sampling({}), queries=False)
    plain = ScriptedPool({"up": upstream})
    gateway = Gateway(ObservedPool(plain, tracing, lambda _: (None, None)))
    gateway.publish(plain.catalog())
    dispatcher = dispatcher_of(gateway, Interactions(), Observers(tracing))
    written = [b'"up__abc"', b'"up__\\u0061bc"', b'"up__a\\u0062c"', b'"\\u0075p__abc"']
    for name in [*written, *written]:
        request = modern_request(Caller(ANONYMOUS), "2026-07-28", {}, nowhere)
        reply = await dispatcher.answer(request, "tools/call", {"name": Raw(name)})
        assert reply.error is None
    (metric,) = [m for m in taken.taken() if m.name == c.DURATION["server"]]
    (point,) = metric.data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert (point.attributes or {})[c.TOOL] == "up__abc"
    assert point.count == len(written) * 2
    assert len(taken.known) == 2  # one on either side: nobody can make them many


def _elsewhere(_context: RequestContext, _params: Mapping[str, Raw]) -> None:
    raise OwnedByReplica("http://another.example")


async def test_a_call_that_another_replica_goes_on_with_is_measured_there_alone() -> None:
    spans: list[Span] = []
    taken = Standing()
    tracing = Tracing(spans.append, taken, Sampling({}), queries=False)
    dispatcher = dispatcher_of(Gateway(ScriptedPool()), Interactions(), Observers(tracing))
    meta = {"traceparent": Raw(b'"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"')}
    request = modern_request(Caller(ANONYMOUS), "2026-07-28", meta, nowhere)
    with pytest.raises(OwnedByReplica):
        await dispatcher.answer(request, "tools/call", {"name": Raw(b'"x"')}, _elsewhere)
    assert not list(taken.taken())
    assert not spans
