"""Opening accounts and keeping their tasks running, even if the database is unreachable at first.

Owns: the retries, and the task that runs `Accounts.run`. Never imports the surfaces above.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from armory.accounts.service import Accounts
from armory.ending import at_most
from armory.errors import ArmoryError, BackendError
from armory.logger import Logger
from armory.tasks import spawn, stop

_log = Logger(__name__)
FIRST_CHANGE_S = 5.0
RETRY_S = 2.0
"""Seconds between two attempts to open a database that is away."""
_END_S = 2.0


class Opening:
    """Opens accounts, with retries.

    Attributes:
        away: why they are not open, as their database says it; None once they are.

    Args:
        accounts: not open yet.
        again_s: seconds between two attempts.
    """

    def __init__(self, accounts: Accounts, *, again_s: float = RETRY_S) -> None:
        self.away: str | None = None
        self._accounts = accounts
        self._again_s = again_s

    async def attempt(self) -> None:
        """Try once to open them; `away` then has the outcome.

        Raises:
            ConfigError: the database was written by a newer Armory.
        """
        before = self.away  # and still is: to try is not to reach
        try:
            await self._accounts.open()
        except BackendError as error:
            self.away = error.message
            if before != self.away:
                _log.warning("database_away", error=error.message, again_s=self._again_s)
            return
        self.away = None
        if before is not None:
            _log.info("database_reached")

    async def run(self) -> None:
        """Try until they are open, then keep their tasks running, whatever errors occur in one of
        them.
        """
        while self.away is not None:
            await asyncio.sleep(self._again_s)
            try:
                await self.attempt()
            except ArmoryError as error:
                self.away = error.message
                _log.error("database_refused", error=error.message)
        logged = False
        while True:
            try:
                await self._accounts.run()
            except Exception as error:  # noqa: BLE001 without them nothing cached may answer
                _log.error("accounts_failed", error=repr(error), exc_info=None if logged else error)
                logged = True
            await asyncio.sleep(self._again_s)


@asynccontextmanager
async def opened(accounts: Accounts) -> AsyncGenerator[Opening]:
    """Open accounts, and keep their tasks running for as long as the context lasts.

    A database that cannot be reached is tried again and again: the gateway serves what needs no
    account meanwhile, and statistics and the query log begin when it is there.

    Args:
        accounts: not open yet.

    Raises:
        ConfigError: the database was written by a newer Armory.
    """
    opening, task = Opening(accounts), None
    try:
        await opening.attempt()
        task = spawn(opening.run(), "accounts")
        if opening.away is None:
            await accounts.feed.wait_trusted(FIRST_CHANGE_S)
        yield opening
    finally:
        await stop(task, timeout_s=at_most(_END_S))  # what it waits for ends with the accounts
        await accounts.close()
