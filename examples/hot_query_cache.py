"""Hot queries: what is asked again and again is kept by the client for an hour.

The gateway keeps answers too, for five minutes and as long as nothing changes; a cache of your own
saves the request itself.

Run: python examples/hot_query_cache.py
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from cachetools import TTLCache
from demo_gateway import Armory, armory

TTL_S = 3_600


class HotQueries:
    """Retrieval with a cache in front.

    Attributes:
        asked: how often the gateway was asked.
    """

    def __init__(self, gateway: Armory, *, size: int = 1_000, ttl_s: float = TTL_S) -> None:
        self._gateway = gateway
        self._kept = TTLCache[tuple[str, int], list[dict[str, Any]]](size, ttl_s)
        self.asked = 0

    async def tools(self, query: str, top_k: int = 5) -> list[dict[str, Any]]:
        """The tools for a query, from the cache where they are fresh."""
        key = (" ".join(query.lower().split()), top_k)
        kept = self._kept.get(key)
        if kept is None:
            self.asked += 1
            kept = self._kept[key] = (await self._gateway.retrieve(query, top_k=top_k))["tools"]
        return kept


async def main() -> None:
    """Ask the same three times, and something else once."""
    async with armory() as gateway:
        hot = HotQueries(gateway)
        started = time.perf_counter()
        first = await hot.tools("Add a note")
        asked_ms = (time.perf_counter() - started) * 1000
        started = time.perf_counter()
        again = await hot.tools("  add a NOTE ")
        kept_ms = (time.perf_counter() - started) * 1000
        assert again is first
        assert hot.asked == 1
        assert kept_ms < asked_ms
        await hot.tools("What time is it?")
        assert hot.asked == 2
        print(f"asked: {asked_ms:.1f} ms, kept: {kept_ms:.3f} ms; {first[0]['name']} first")


if __name__ == "__main__":
    asyncio.run(main())
