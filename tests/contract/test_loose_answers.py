"""Servers that are freer than the specification, in ways that SDKs take, over every transport."""

from __future__ import annotations

import asyncio

import pytest

from armory.testing.clients.recording import RecordingClient
from tests.contract.links import BOUND_S, Rig

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("form", ["text", "float"])
async def test_ids_and_tokens_may_come_back_as_a_text_or_a_float(rig: Rig, form: str) -> None:
    client = RecordingClient(progress_token="mine")
    async with asyncio.timeout(BOUND_S):
        answer = await rig.call("loose", {"form": form}, client=client)
    assert answer["content"][0]["text"] == "loose"
    assert [params["progressToken"] for _, params in client.notes] == ["mine"]


async def test_an_error_that_is_null_is_none(rig: Rig) -> None:
    async with asyncio.timeout(BOUND_S):
        answer = await rig.call("loose", {"form": "null error"})
    assert answer["content"][0]["text"] == "loose"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("no such user", -32603, "no such user"),
        ({"message": "no such user"}, -32603, "no such user"),
        ({"code": "ENOENT", "message": "no such file"}, -32603, "no such file"),
        ([], -32603, "'[]'"),
        (5, -32603, "'5'"),
    ],
)
async def test_an_error_that_is_no_error_object_is_one_to_clients(
    rig: Rig, error: object, code: int, message: str
) -> None:
    """Those of SDKs drop any other, and wait."""
    async with asyncio.timeout(BOUND_S):
        answer = await rig.call("loose", {"error": error})
    assert answer == {"error": {"code": code, "message": message, "data": error}}


@pytest.mark.parametrize(
    ("tool", "method"),
    [
        ("grow", "notifications/tools/list_changed"),
        ("touch", "notifications/resources/updated"),
    ],
)
async def test_news_in_the_midst_of_a_call_are_for_all_who_listen(
    rig: Rig, tool: str, method: str
) -> None:
    client = RecordingClient()
    await rig.call(tool, {"here": True}, client=client)
    await rig.observer.until(lambda: method in rig.observer.methods)
    assert client.notes == []


async def test_what_nobody_knows_in_the_midst_of_a_call_is_for_its_client(rig: Rig) -> None:
    client = RecordingClient()
    await rig.call("touch", {"here": True, "method": "notifications/vendor"}, client=client)
    said = [(method, params) for _, _, method, params in rig.observer.notified] or client.notes
    assert said == [("notifications/vendor", {"uri": "mem://one"})]
    if rig.kind.startswith("http"):  # where it can be told whose it is
        assert rig.observer.notified == []
