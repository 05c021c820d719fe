"""Of many users not everything is in memory, and nothing is lost by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.accounts import quotas
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_counts_hold_for_more_users_than_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "USERS_KEPT", 2)
    settings = AccountSettings(enabled=True, plans={"free": 4})
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    accounts = Accounts(Database(url), MemoryCache(), settings)
    await accounts.open()
    users = [f"u{place}" for place in range(5)]
    try:
        for spent in range(1, 5):
            for user in users:
                standing = await accounts.quotas.spend(user)
                assert standing.current_month_usage == spent
            if spent % 2:
                await accounts.flush()
        for user in users:
            with pytest.raises(quotas.QuotaSpent):
                await accounts.quotas.spend(user)
    finally:
        await accounts.close()
