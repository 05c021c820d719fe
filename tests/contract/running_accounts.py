"""Accounts as several processes on the same stores have them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from armory.accounts.service import Accounts


class RunningAccounts:
    """Any number of processes, each with accounts of its own; `make` opens one's stores."""

    def __init__(self, make: Callable[[], Accounts]) -> None:
        self._make = make
        self._running: list[tuple[Accounts, asyncio.Task[None]]] = []

    async def start(self) -> Accounts:
        accounts = self._make()
        await accounts.open()
        self._running.append((accounts, asyncio.create_task(accounts.run())))
        assert await accounts.feed.wait_trusted(10)
        return accounts

    async def stop(self) -> None:
        for accounts, task in self._running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await accounts.close()
