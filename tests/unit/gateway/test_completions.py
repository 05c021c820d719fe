"""Completions of upstreams that know none, beside others that do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from armory.protocol.link import Call, Owner, Reply
from armory.testing.front import raws, refused

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "ref",
    [{"type": "ref/prompt", "name": "up__hi"}, {"type": "ref/resource", "uri": "up+file:///{x}"}],
)
async def test_an_upstream_that_completes_nothing_has_no_values(
    bench: Bench, ref: dict[str, Any]
) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        return refused(-32601, "Method not found")

    bench.pool.upstreams["up"].answer = answer
    complete, params = bench.gateway.primitives.complete, raws({"ref": ref, "argument": {}})
    reply = await complete(bench.context(), params)
    assert msgspec.json.decode(reply.result or b"null") == {"completion": {"values": []}}
    own = {"type": "ref/prompt", "name": "hi"}
    endpoint = bench.gateway.view.endpoint("server", "up")
    assert endpoint is not None
    reply = await complete(bench.context(endpoint=endpoint), raws({"ref": own, "argument": {}}))
    assert reply.error is not None  # it speaks for itself there
