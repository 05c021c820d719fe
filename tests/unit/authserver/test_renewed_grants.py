"""A grant that is renewed while its database is slow, away, or has its clock set back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from armory.authserver.errors import OAuthError
from armory.authserver.grants import Grants
from armory.errors import BackendError
from armory.storage.grants import StoredGrants
from tests.unit.authserver.granting import CLIENT, Gateway, aged, rotating

pytestmark = pytest.mark.anyio


class AwayFor(StoredGrants):
    """The database is away when a renewed grant is to be kept, for so many attempts."""

    away = 0

    async def put(self, id: str, step: int, grant: bytes, life_s: float) -> bool:
        self._be_away()
        return await super().put(id, step, grant, life_s)

    async def take_back(self, id: str, step: int, grant: bytes | None, life_s: float) -> None:
        if grant is not None:
            self._be_away()
        await super().take_back(id, step, grant, life_s)

    def _be_away(self) -> None:
        if self.away:
            self.away -= 1
            raise BackendError("the database is away")


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_renewed_grant_is_kept_though_the_database_was_away(
    tmp_path: Path, leaves: bool
) -> None:
    """The provider's refresh token that is kept has worked for the last time."""
    async with rotating(tmp_path) as (found, login, provider):
        _, refresh = await found.logged_in(login)
        store = AwayFor(found.database, found.feed, found.seal)
        store.away = 3
        grants = Grants(store, found.seal, found.provider)
        asking = asyncio.create_task(grants.refresh(refresh, CLIENT, ""))
        await provider.is_asked.wait()
        if leaves:
            asking.cancel()
            await asyncio.wait((asking,))
        provider.goes_on.set()
        given = await (grants.refresh(refresh, CLIENT, "") if leaves else asking)
        assert await found.scheme.identify(given.access) is not None
        assert (await grants.refresh(given.refresh, CLIENT, "")).refresh
        assert provider.asked == ["r0", "r1", "r2"][: 2 + leaves]


class TakesLate(StoredGrants):
    """The first who takes a grant waits, as for a connection to the database."""

    def __init__(self, found: Gateway) -> None:
        super().__init__(found.database, found.feed, found.seal)
        self.taking, self.may = asyncio.Event(), asyncio.Event()

    async def take(self, id: str, step: int, grant: bytes | None, life_s: float) -> bool:
        if not self.taking.is_set():
            self.taking.set()
            await self.may.wait()
        return await super().take(id, step, grant, life_s)


async def test_a_grant_that_was_renewed_before_it_is_taken_is_shown_as_it_is(
    tmp_path: Path,
) -> None:
    """Whoever had it renewed has left, so that the same refresh token counts again."""
    async with rotating(tmp_path) as (found, login, provider):
        _, refresh = await found.logged_in(login)
        store = TakesLate(found)
        late = asyncio.create_task(
            Grants(store, found.seal, found.provider).refresh(refresh, CLIENT, "")
        )
        await store.taking.wait()
        leaves = asyncio.create_task(found.grants.refresh(refresh, CLIENT, ""))
        await provider.is_asked.wait()
        leaves.cancel()
        await asyncio.wait((leaves,))
        renewing = [task for task in asyncio.all_tasks() if task.get_name() == "renew a grant"]
        provider.goes_on.set()
        await asyncio.wait(renewing, return_when=asyncio.FIRST_COMPLETED)
        store.may.set()
        assert (await late).refresh
        assert provider.asked == ["r0", "r1"]


async def test_a_used_refresh_token_is_refused_after_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    async with rotating(tmp_path) as (found, login, provider):
        provider.goes_on.set()
        _, refresh = await found.logged_in(login)
        await found.grants.refresh(refresh, CLIENT, "")
        await aged(found, -3_600)
        with pytest.raises(OAuthError, match="used before"):
            await found.grants.refresh(refresh, CLIENT, "")
