"""Only so many calls may wait for a client's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from armory.testing.front import asking, serving
from armory.wire.settings import HttpSettings

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio


async def test_one_call_too_many_is_refused_and_ended(front: Front) -> None:
    front.pool.upstreams["old"].answer = asking
    params = {"name": "old__now", "arguments": {}}
    able = {"elicitation": {"form": {}}}
    async with serving(front.gateway, settings=HttpSettings(parked=2)) as (url, edge):
        front.url = url
        waiting = [(await front.modern("tools/call", params, capabilities=able))[1] for _ in "12"]
        assert {found["result"]["resultType"] for found in waiting} == {"input_required"}
        _, refused = await front.modern("tools/call", params, capabilities=able)
        result = refused["result"]  # for the model, as every limit on a call
        assert result["isError"]
        assert "server.limits.parked_interactions" in result["content"][0]["text"]
        assert result["_meta"]["dev.armory/error"]["code"] == "rate_limited"
        _, refused = await front.modern("prompts/get", {"name": "old__greet"}, capabilities=able)
        assert (refused["error"]["code"], refused["error"]["data"]) == (
            1003,
            {"code": "rate_limited"},
        )
        assert edge.interactions.parked == 2
