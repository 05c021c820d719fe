"""Who was let in: out once their credential has expired, or is refused when it is asked again."""

from __future__ import annotations

import asyncio
import time

import pytest

from armory.domain.principal import Principal
from armory.errors import ArmoryError, AuthenticationFailed, BackendError
from armory.security import expiry
from armory.security.authentication import Authenticator
from armory.security.expiry import while_authorized, while_valid
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("away", [False, True])
async def test_a_call_ends_where_it_is_refused_and_not_where_nobody_can_tell(away: bool) -> None:
    authenticator, asked = Authenticator(allow_anonymous=True), asyncio.Event()
    done = asyncio.Event()

    async def ask() -> None:
        asked.set()
        raise BackendError("the database is away") if away else AuthenticationFailed("revoked")

    async def call() -> str:
        async with while_authorized(authenticator, ask):
            await done.wait()
        return "the result"

    calling = asyncio.create_task(call())
    async with asyncio.timeout(10):
        await until(lambda: bool(authenticator.on_ending))
        authenticator.ended()
        await asked.wait()
        if away:
            done.set()
            assert await calling == "the result"
        else:
            with pytest.raises(ArmoryError, match="revoked"):
                await calling
    assert not authenticator.on_ending


async def test_what_was_begun_ends_also_where_the_machine_slept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock of the event loop stands still meanwhile."""
    monkeypatch.setattr(expiry, "_LOOK_S", 0.01)
    began, wakes = asyncio.Event(), time.time() + 7_200

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    ann = Principal("ann", expires_at=time.time() + 3_600)
    working = asyncio.create_task(while_valid(ann, work()))
    async with asyncio.timeout(10):
        await began.wait()
        monkeypatch.setattr(time, "time", lambda: wakes)
        assert not await working
