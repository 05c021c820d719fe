"""How often the same change of lists is told."""

from __future__ import annotations

import asyncio

import pytest

from armory.gateway.changes.announcements import Announcements
from armory.protocol.session_events import Notified
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
TOOLS = "notifications/tools/list_changed"


async def test_the_first_is_told_at_once_and_of_the_others_the_last() -> None:
    told: list[Notified] = []
    twice = asyncio.Event()

    def tell(event: Notified) -> None:
        told.append(event)
        if len(told) > 2:
            twice.set()

    announcements = Announcements(tell)
    said = [Notified("up", "", TOOLS, {}) for _ in range(1_000)]
    for event in said:
        announcements.take(event)
    other = Notified("other", "", TOOLS, {})
    announcements.take(other)
    assert told == [said[0], other]
    async with asyncio.timeout(10):
        await twice.wait()
    assert told[2] is said[-1]
    announcements.take(said[0])
    announcements.close()
    assert len(told) == 3


async def test_what_rested_is_told_at_once_again() -> None:
    told: list[Notified] = []
    announcements = Announcements(told.append)
    said = Notified("up", "", TOOLS, {})
    announcements.take(said)
    await until(lambda: not announcements._timers)  # pyright: ignore[reportPrivateUsage]
    announcements.take(said)
    assert told == [said, said]
    announcements.close()
