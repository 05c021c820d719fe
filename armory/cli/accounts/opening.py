"""What the account commands share: the accounts of the configuration, opened for one command.

Owns: opening and closing, the check that a user exists, and reading times. Never imports a web
framework.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from armory.cli.options import loaded_for
from armory.cli.output import say_notice
from armory.cli.times import moment_of, span_of
from armory.errors import ArmoryError, InvalidRequest
from armory.storage.sqlite_reading import sqlite_rows

if TYPE_CHECKING:
    from armory.accounts.listings import Listing
    from armory.accounts.service import Accounts
    from armory.accounts.users import User
    from armory.config import Loaded

T = TypeVar("T")
BLOCKS = ("storage", "accounts")
"""What accounts depend on; somebody can be switched off where a token's variable is not set."""


class NotThere(ArmoryError):
    """What a command was asked to change does not exist."""

    code = "unknown"


def with_accounts(config: str | None, work: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `work` on the accounts of the configuration; other processes hear of what it changes.

    Raises:
        ArmoryError: the database cannot be reached, or `work` failed.
    """
    return _opened(loaded_for(config, *BLOCKS), work)


def listed(config: str | None, listing: Listing[T]) -> list[T]:
    """What a listing finds in the accounts of the configuration.

    Raises:
        ArmoryError: the database cannot be reached.
    """
    loaded = loaded_for(config, *BLOCKS)
    rows = sqlite_rows(loaded.config.storage.url, listing.sql, listing.values)
    if rows is None:
        rows = _opened(loaded, lambda accounts: accounts.database.rows(listing.sql, listing.values))
    return [listing.row(*row) for row in rows]


def _opened(loaded: Loaded, work: Callable[[Accounts], Awaitable[T]]) -> T:
    import asyncio  # a listing needs neither it nor SQLAlchemy, which is most of a command's CPU

    from armory.runtime.blocks.accounts import make_accounts

    async def run() -> T:
        accounts = make_accounts(loaded)
        try:
            await accounts.open(statistics=False)
            return await work(accounts)
        finally:
            await accounts.close()

    return asyncio.run(run())


async def need_user(accounts: Accounts, user: str, parameter: str) -> User:
    """The user of that id.

    Raises:
        InvalidRequest: there is none; `parameter` is the option that gives it.
    """
    found = await accounts.users.get(user)
    if found is None:
        raise InvalidRequest(
            f"there is no user {user!r}; `armory users create {user}` makes it",
            parameter=parameter,
        )
    return found


async def note_unknown(accounts: Accounts, user: str) -> None:
    """Print a notice if there is no user of that id: it may be misspelt, or created later."""
    if await accounts.users.get(user) is None:
        say_notice(f"there is no user {user!r} yet; `armory users list` shows those that there are")


def has_tool(name: str) -> bool:
    """Whether a gateway that runs here has a tool, or none that can be asked does run."""
    from armory.cli.gateway.running import NotFound, gateways  # most commands ask nobody

    try:
        for gateway in gateways(None, None):
            try:
                gateway.get(f"/v1/tools/{quote(name, safe='')}")
            except NotFound:
                continue
            return True
    except ArmoryError:
        return True
    return False


def expiry_ms(text: str | None) -> int | None:
    """`90d`, `12h` from now, or a date `2027-01-31`, as milliseconds since 1970; None for None.

    Raises:
        InvalidRequest: the text has neither form.
    """
    if text is None:
        return None
    span = span_of(text)
    until = moment_of(text) if span is None else datetime.now(UTC) + span
    if until is None:
        raise InvalidRequest(
            f"--expires is {text!r}; expected a span such as 90d or 12h, or a date such as "
            "2027-01-31",
            parameter="expires",
        )
    if until <= datetime.now(UTC):
        raise InvalidRequest(
            f"--expires is {text!r}, which is past; expected a time to come", parameter="expires"
        )
    return int(until.timestamp() * 1000)
