"""Calls that ask at once, in front of upstreams with a handshake.

A modern request does not say which client it comes from: they share their principal's session. A
client with a handshake has one of its own, unless all share one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingClient
from tests.contract.links import BOUND_S, Rig

pytestmark = pytest.mark.anyio

SAID = {"role": "assistant", "x": 1}


def able(number: int) -> RecordingClient:
    return RecordingClient(
        {"sampling": {}}, answers={"sampling/createMessage": {**SAID, "of": number}}
    )


@pytest.mark.parametrize("isolation", ["principal", "session", "shared"])
async def test_each_is_asked_for_itself_the_first_time(legacy: Rig, isolation: str) -> None:
    await legacy.reconfigure(isolation=isolation)
    clients = [able(number) for number in range(6)]
    async with asyncio.timeout(BOUND_S):
        answers: list[Any] = await asyncio.gather(
            *(legacy.call("sample", client=client) for client in clients)
        )
    said = [answer["structuredContent"].get("result") for answer in answers]
    assert said == [{**SAID, "of": number} for number in range(6)]
    assert legacy.pool.status()["up"].sessions.open == 1


@pytest.mark.parametrize("isolation", ["principal", "session", "shared"])
async def test_a_client_with_a_handshake_is_asked_for_each(legacy: Rig, isolation: str) -> None:
    await legacy.reconfigure(isolation=isolation)
    client = able(0)
    owner = Owner(ANONYMOUS, "one", client)
    async with asyncio.timeout(BOUND_S):
        answers: list[Any] = await asyncio.gather(
            *(legacy.call("sample", client=client, owner=owner) for _ in range(6))
        )
    said = [answer["structuredContent"].get("result") for answer in answers]
    assert said == [{**SAID, "of": 0}] * 6
    counts = legacy.pool.status()["up"].sessions
    assert (counts.open, counts.own) == (1, 0 if isolation == "shared" else 1)
