"""What a gateway in another process says of itself in `/metrics`, and waiting for it."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Callable


def figure(url: str, name: str) -> float:
    """The sum of a metric over its labels, of the gateway at this base URL."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.MULTILINE)
    assert found, name
    return sum(map(float, found))


async def until(what: Callable[[], bool]) -> None:
    """Wait, 20 s at most, until this holds."""
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(what):  # noqa: ASYNC110 # another process
            await asyncio.sleep(0.05)
