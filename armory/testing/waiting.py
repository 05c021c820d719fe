"""Waiting in tests for what has no event of its own.

Owns: `until` and `eventually` for the event loop, `wait_until` for a thread that may wait. Never
waits longer than it is told to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


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


def wait_until(found: Callable[[], T], failure: object = "", timeout_s: float = 60.0) -> T:
    """As `until`, where this thread has nothing else to do; what was found.

    Args:
        found: says at some time something that is true.
        failure: what is wrong if it does not; shown as it is by then.
        timeout_s: so long is waited at most.

    Raises:
        TimeoutError: it took too long; the message is `failure`.
    """
    end = time.monotonic() + timeout_s
    while not (value := found()):
        if time.monotonic() > end:
            raise TimeoutError(failure)
        time.sleep(0.05)
    return value
