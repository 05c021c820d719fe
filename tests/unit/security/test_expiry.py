"""Who was let in and is asked again: out once that is refused, and not where nobody can tell."""

from __future__ import annotations

import asyncio

import pytest

from armory.errors import ArmoryError, AuthenticationFailed, BackendError
from armory.security.authentication import Authenticator
from armory.security.expiry import while_let_in
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
        async with while_let_in(authenticator, ask):
            await done.wait()
        return "the result"

    calling = asyncio.create_task(call())
    async with asyncio.timeout(10):
        await until(lambda: bool(authenticator.watching))
        authenticator.ended()
        await asked.wait()
        if away:
            done.set()
            assert await calling == "the result"
        else:
            with pytest.raises(ArmoryError, match="revoked"):
                await calling
    assert not authenticator.watching
