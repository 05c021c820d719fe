"""What an open console costs the gateway, and whether 10,000 tools scroll smoothly.

`python -m benchmarks.console.run --packages DIR [--rounds N] [--calls N] [--out FILE]`; DIR holds
what `npm ci` in `console/` installs, and Chromium is on the machine.

Two gateways run side by side, one of them looked at by three pages that are live; short rounds of
calls go to each in turn, so that whatever else the machine does falls on both alike. Counted is the
CPU time of the gateway's process. How many polls fall on a call depends on how many calls there are
a second, so what the pages cost a gateway without calls is counted, too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from armory.accounts.settings import AccountSettings
from armory.runtime.version import armory_version
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service
from armory.testing.upstreams.http import HttpUpstream
from benchmarks.watched.figures import ratio
from benchmarks.watched.gateways import Way, calls, running

TOKEN = "the-token-of-the-operator"
PAGES = ("overview", "activity", "usage")
IDLE_S = 20.0
_CONFIG = {
    "security": {
        "tokens": {"root": {"token": TOKEN, "scopes": ["admin"]}},
        "allow_anonymous": True,
    }
}
_BROWSER = Path(__file__).with_name("browser.mjs")


async def _browser(packages: Path, given: Mapping[str, Any]) -> Process:
    return await asyncio.create_subprocess_exec(
        "node", str(_BROWSER), str(packages), json.dumps(given), stdin=PIPE, stdout=PIPE
    )


@contextlib.asynccontextmanager
async def looked_at(packages: Path, base: str) -> AsyncGenerator[None]:
    """Live pages on a gateway, until the context ends."""
    browser = await _browser(packages, {"base": base, "token": TOKEN, "watch": PAGES})
    assert browser.stdin is not None
    assert browser.stdout is not None
    if not await browser.stdout.readline():
        raise SystemExit("the browser ended")
    try:
        yield
    finally:
        browser.stdin.close()
        await browser.wait()


async def fast_path(packages: Path, rounds: int, count: int) -> dict[str, Any]:
    """Microseconds of CPU a call, with and without pages; milliseconds a second without calls."""
    took: dict[str, list[float]] = {"closed": [], "open": []}
    rates: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-console-")))
        upstream = await stack.enter_async_context(HttpUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        gateways = {}
        for name in took:
            (folder / name).mkdir()
            way = Way({}, {}, config=_CONFIG)
            gateways[name] = await stack.enter_async_context(
                running(way, upstream.url, folder / name, "asyncio")
            )
            await calls(http, gateways[name].url, count)
        base = gateways["open"].url.removesuffix("/mcp")
        await stack.enter_async_context(looked_at(packages, base))
        names = list(took)
        for _ in range(rounds):
            for name in names:
                began, at = gateways[name].cpu_s(), time.monotonic()
                await calls(http, gateways[name].url, count)
                took[name].append((gateways[name].cpu_s() - began) / count * 1e6)
                rates.append(count / (time.monotonic() - at))
            names.reverse()
            upstream.requests.clear()
            upstream.script.received.clear()
        before = {name: gateway.cpu_s() for name, gateway in gateways.items()}
        await asyncio.sleep(IDLE_S)
        idle = {
            name: round((gateway.cpu_s() - before[name]) / IDLE_S * 1e3, 2)
            for name, gateway in gateways.items()
        }
    return {
        "pages": list(PAGES),
        "rounds": rounds,
        "calls_a_round": count,
        "calls_a_second": round(statistics.median(rates)),
        "us_a_call": {name: round(statistics.median(t), 1) for name, t in took.items()},
        "open_to_closed": ratio(took["open"], took["closed"]),
        "idle_ms_a_second": idle,
    }


async def scrolling(packages: Path, steps: int) -> dict[str, Any]:
    """What was slow while the list of 10,000 tools was scrolled."""
    tools = [
        {"name": f"tool_{number}", "description": f"Do what number {number} does"}
        for number in range(10_000)
    ]
    with tempfile.TemporaryDirectory(prefix="armory-console-") as folder:
        async with running_service(
            f"sqlite:///{folder}/armory.db",
            catalog_of({"many": tools}),
            settings=AccountSettings(),
            embedder=HashingEmbedder(),
        ) as service:
            given = {"base": service.url, "token": ADMIN_TOKEN, "scroll": steps}
            browser = await _browser(packages, given)
            output, _ = await browser.communicate()
    return json.loads(output)


async def measured(packages: Path, rounds: int, count: int, steps: int) -> dict[str, Any]:
    """Both."""
    return {
        "armory": armory_version(),
        "python": sys.version.split()[0],
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "scrolling_10000_tools": await scrolling(packages, steps),
        "fast_path": await fast_path(packages, rounds, count),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=1_600, help="of one round, to one gateway")
    parser.add_argument("--steps", type=int, default=600, help="of the wheel")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = asyncio.run(measured(given.packages, given.rounds, given.calls, given.steps))
    text = json.dumps(found, indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
