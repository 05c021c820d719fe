"""V1 and V2 cold, warm and cached; authentication cached and not: p50 and p95 over one connection.

Run: python -m benchmarks.service.run [--tools 10000] [--rounds 300] [--out FILE]

- cold: a query that nobody has asked, its embedding included;
- warm: the embedding is kept, the answer is not (another `top_k` each time);
- cached: the answer is kept.
- auth: the lookup of an API key alone, in process: kept, and from the database.

Everything runs on one machine, the client in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.testing.service import catalog_of, running_service

_VERBS = ("create", "list", "delete", "update", "search", "export", "archive", "share", "sync")
_NOUNS = ("invoice", "ticket", "branch", "calendar event", "customer", "deployment", "photo", "log")


def tools(count: int) -> dict[str, list[dict[str, Any]]]:
    """So many different tools over fifty servers."""
    servers: dict[str, list[dict[str, Any]]] = {}
    for number in range(count):
        verb, noun = _VERBS[number % len(_VERBS)], _NOUNS[(number // len(_VERBS)) % len(_NOUNS)]
        text = f"{verb.capitalize()} a {noun} of department {number} and report what changed"
        name = f"{verb}_{noun.replace(' ', '_')}_{number}"
        servers.setdefault(f"server-{number % 50}", []).append(
            {"name": name, "description": text, "inputSchema": {"type": "object"}}
        )
    return servers


def figures(times_ms: list[float]) -> dict[str, float]:
    """p50 and p95 in milliseconds."""
    p50, p95 = np.percentile(times_ms, [50, 95])
    return {"p50_ms": round(float(p50), 3), "p95_ms": round(float(p95), 3)}


async def timed(rounds: int, work: Callable[[int], Awaitable[object]]) -> dict[str, float]:
    """Figures of so many runs of `work`."""
    times: list[float] = []
    for number in range(rounds):
        started = time.perf_counter()
        await work(number)
        times.append((time.perf_counter() - started) * 1000)
    return figures(times)


async def over_http(url: str, key: str, rounds: int) -> dict[str, Any]:
    """V1 and V2 as a client sees them."""
    found: dict[str, Any] = {}
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def get(path: str, query: str, top_k: int) -> None:
            params = {"query": query, "top_k": str(top_k)}
            async with session.get(url + path, params=params) as answer:
                await answer.read()
                answer.raise_for_status()

        for name, path in (("v1", "/retrieve_tools"), ("v2", "/v2/retrieve_tools")):
            await get(path, f"{name} warm-up", 5)
            said = f"{name}: update the customer of department"
            found[name] = {
                "cold": await timed(rounds, lambda n, p=path, s=said: get(p, f"{s} {n}", 5)),
                "warm": await timed(
                    min(rounds, 45), lambda n, p=path, s=said: get(p, f"{s} 0", n + 6)
                ),
                "cached": await timed(rounds, lambda _, p=path, s=said: get(p, f"{s} 0", 5)),
            }
    return found


def client(url: str, key: str, rounds: int, out: Any) -> None:
    """The client's process."""
    out.put(asyncio.run(over_http(url, key, rounds)))


async def authentication(folder: Path, rounds: int) -> dict[str, Any]:
    """An API key: from memory, and from the database."""
    accounts = Accounts(
        Database(f"sqlite:///{folder / 'auth.db'}"), MemoryCache(), AccountSettings(enabled=True)
    )
    await accounts.open()
    _, key = await accounts.keys.create("bench")
    uncached = await timed(rounds, lambda _: accounts.keys.identify(key))  # no feed: no trust
    task = asyncio.create_task(accounts.run())
    await accounts.feed.wait_trusted(5.0)
    await accounts.keys.identify(key)
    cached = await timed(rounds * 10, lambda _: accounts.keys.identify(key))
    task.cancel()
    await asyncio.wait([task])
    await accounts.close()
    return {"cached": cached, "uncached": uncached}


async def main(count: int, rounds: int) -> dict[str, Any]:
    """Every figure."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        catalog = catalog_of(tools(count))
        async with running_service(f"sqlite:///{folder / 'armory.db'}", catalog) as service:
            accounts = service.accounts
            await accounts.users.create("bench")
            half = [("server", f"server-{n}") for n in range(25)]
            await accounts.packs.install("bench", half)  # pyright: ignore[reportArgumentType]
            _, key = await accounts.keys.create("bench", user="bench")
            context = get_context("spawn")
            out = context.Queue()
            process = context.Process(target=client, args=(service.url, key, rounds, out))
            process.start()
            found = await asyncio.to_thread(out.get)
            await asyncio.to_thread(process.join)
        found["auth"] = await authentication(folder, rounds)
    return {
        "tools": count,
        "rounds": rounds,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": found,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = asyncio.run(main(given.tools, given.rounds))
    text = json.dumps(result, indent=2) + "\n"
    if given.out:
        given.out.write_text(text)
    sys.stdout.write(text)
