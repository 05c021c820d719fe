"""Whatever comes of a request is a reply, what a transport checks besides included."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.errors import BackendError
from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.protocol.jsonrpc import error_of
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.methods import REQUESTS
from armory.testing.front import ScriptedPool, ScriptedUpstream, raws, result, tool
from armory.wire.caller import Caller
from armory.wire.dispatch import Dispatcher
from armory.wire.interaction.interactions import Interactions
from armory.wire.methods import METHODS
from armory.wire.requests import modern_request

pytestmark = pytest.mark.anyio


async def nowhere(_data: bytes) -> None:
    """Nothing is said before the answer."""


async def test_the_table_has_what_the_protocol_knows() -> None:
    assert set(METHODS) == REQUESTS


async def test_a_check_of_the_transport_that_breaks_is_an_error_of_the_table() -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        return result({"content": []}, "modern")

    def broken(context: RequestContext, params: Mapping[str, Raw]) -> None:
        raise BackendError("the register is away")

    upstream = ScriptedUpstream(ServerLists(tools=[tool("a", "")]), answer, "modern")
    pool = ScriptedPool({"up": upstream})
    gateway = Gateway(pool)
    gateway.publish(pool.catalog())
    dispatcher = Dispatcher(gateway, Interactions())
    request = modern_request(Caller(ANONYMOUS), "2026-07-28", {}, nowhere)
    reply = await dispatcher.answer(request, "tools/call", raws({"name": "up__a"}), broken)
    assert reply.error is not None
    assert error_of(reply.error).message == "the register is away"
    assert not pool.calls
