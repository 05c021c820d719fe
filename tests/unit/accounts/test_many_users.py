"""Of many users not everything is in memory, and nothing is lost by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.accounts import plans, scopes
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.domain.principal import Principal
from armory.storage.cache import MemoryCache
from armory.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_counts_hold_for_more_users_than_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "USERS_KEPT", 2)
    settings = AccountSettings(enabled=True, plans={"free": 4})
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    accounts = Accounts(Database(url), MemoryCache(), settings)
    await accounts.open()
    users = [f"u{place}" for place in range(5)]
    try:
        for spent in range(1, 5):
            for user in users:
                standing = await accounts.plans.spend(user)
                assert standing.current_month_usage == spent
            if spent % 2:
                await accounts.flush()
        for user in users:
            with pytest.raises(plans.PlanSpent):
                await accounts.plans.spend(user)
    finally:
        await accounts.close()


async def test_every_user_sees_what_it_has_when_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "USERS_KEPT", 2)
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    accounts = Accounts(Database(url), MemoryCache(), AccountSettings(enabled=True))
    await accounts.open()
    users = [f"u{place}" for place in range(5)]
    try:
        for user in users:
            await accounts.users.create(user)
            await accounts.packs.install(user, [("server", f"server-of-{user}")])
        for user in [*users, *reversed(users)]:
            await accounts.scopes.admit(Principal(user, user=user))
            assert accounts.scopes.view_of(user).servers == {f"server-of-{user}"}
        seen = [user for user in users if accounts.scopes.view_of(user).servers]
        assert seen == ["u0", "u1"]
    finally:
        await accounts.close()
