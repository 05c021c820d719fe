"""What was counted of whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database


@pytest.mark.anyio
async def test_queries_of_a_deleted_user_do_not_count_for_the_next_one_of_that_name(
    tmp_path: Path,
) -> None:
    settings = AccountSettings(enabled=True, plans={"free": 10})
    accounts = Accounts(Database(f"sqlite:///{tmp_path / 'a.db'}"), MemoryCache(), settings)
    await accounts.open()
    try:
        for user in ("ann", "bob"):
            await accounts.users.create(user)
            await accounts.plans.spend(user)
        await accounts.users.delete("ann")
        await accounts.users.create("ann")
        await accounts.flush()
        for user, used in (("ann", 0), ("bob", 1)):
            assert (await accounts.plans.standing(user)).current_month_usage == used
    finally:
        await accounts.close()
