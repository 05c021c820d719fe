"""Only so many calls may wait for a client's answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner, Reply
from armory.tasks import start, stop
from armory.testing.front import asking, serving
from armory.testing.waiting import until
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


async def test_a_call_that_ended_while_it_was_parked_makes_room(front: Front) -> None:
    over = asyncio.Event()

    async def ending(call: Call, owner: Owner) -> Reply:
        question = start(asking(call, owner), "question")
        try:
            await over.wait()
            raise UpstreamUnavailable("upstream 'old' has exited", upstream="old")
        finally:
            await stop(question, timeout_s=5)

    front.pool.upstreams["old"].answer = ending
    params = {"name": "old__now", "arguments": {}}
    able = {"elicitation": {"form": {}}}
    async with serving(front.gateway, settings=HttpSettings(parked=2)) as (url, edge):
        front.url = url

        async def ask(**more: Any) -> dict[str, Any]:
            _, found = await front.modern("tools/call", {**params, **more}, capabilities=able)
            return found["result"]

        states = [(await ask())["requestState"] for _ in "12"]
        assert (await ask())["isError"]
        over.set()
        await until(lambda: all(call.over for call in edge.interactions._parked.values()))  # pyright: ignore[reportPrivateUsage]
        front.pool.upstreams["old"].answer = asking
        assert (await ask())["resultType"] == "input_required"
        assert edge.interactions.parked == 2
        told = await ask(requestState=states[1], inputResponses={})
        assert told["isError"]
        assert "has exited" in told["content"][0]["text"]
        assert (await ask())["resultType"] == "input_required"
        assert (await ask())["isError"]
