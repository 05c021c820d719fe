"""What the account commands share: the accounts of the configuration, opened for one command.

Owns: opening and closing, and reading times. Never imports a web framework.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from armory.cli.options import loaded_config
from armory.errors import ArmoryError, InvalidRequest
from armory.storage.straight import straight_rows

if TYPE_CHECKING:
    from armory.accounts.listings import Listing
    from armory.accounts.service import Accounts
    from armory.config import Loaded

T = TypeVar("T")
_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class NotThere(ArmoryError):
    """What a command was asked to change does not exist."""

    code = "unknown"


def with_accounts(config: str | None, work: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `work` on the accounts of the configuration; other processes hear of what it changes.

    Raises:
        ArmoryError: the database cannot be reached, or `work` failed.
    """
    return _opened(loaded_config(config, quiet=True), work)


def listed(config: str | None, listing: Listing[T]) -> list[T]:
    """What a listing finds in the accounts of the configuration.

    Raises:
        ArmoryError: the database cannot be reached.
    """
    loaded = loaded_config(config, quiet=True)
    rows = straight_rows(loaded.config.storage.url, listing.sql, listing.values)
    if rows is None:
        rows = _opened(loaded, lambda accounts: accounts.database.rows(listing.sql, listing.values))
    return [listing.row(*row) for row in rows]


def _opened(loaded: Loaded, work: Callable[[Accounts], Awaitable[T]]) -> T:
    import asyncio  # a listing needs neither it nor SQLAlchemy, which is most of a command's CPU

    from armory.runtime.blocks.accounts import make_accounts

    async def run() -> T:
        accounts = make_accounts(loaded)
        try:
            await accounts.open()
            return await work(accounts)
        finally:
            await accounts.close()

    return asyncio.run(run())


def expiry_ms(text: str | None) -> int | None:
    """`90d`, `12h` from now, or a date `2027-01-31`, as milliseconds since 1970; None for None.

    Raises:
        InvalidRequest: neither.
    """
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    if span is not None:
        return int((time.time() + int(span[1]) * _SECONDS[span[2]]) * 1000)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"--expires is {text!r}; expected a span such as 90d or 12h, or a date such as "
            "2027-01-31",
            parameter="expires",
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def shown_time(at_ms: int | None, never: str = "never") -> str:
    """A time for people, UTC."""
    if at_ms is None:
        return never
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
