"""Waiting in tests for what has no event of its own.

Owns: `until` and `eventually`. Never waits longer than it is told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(found: Callable[[], bool], timeout_s: float = 15.0) -> None:
    """Look every few milliseconds until `found`.

    Raises:
        TimeoutError: it was not, within `timeout_s` seconds.
    """
    async with asyncio.timeout(timeout_s):
        while not found():  # noqa: ASYNC110 - what is waited for announces nothing
            await asyncio.sleep(0.005)


async def eventually(found: Callable[[], Awaitable[bool]], timeout_s: float = 15.0) -> None:
    """As `until`, of what has to be asked of something else."""
    async with asyncio.timeout(timeout_s):
        while not await found():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
