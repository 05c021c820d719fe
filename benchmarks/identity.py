"""What an identity costs: CPU of the gateway for a call with a static token, with an access token,
and with an access token that is exchanged for one for the upstream.

`python -m benchmarks.identity [--rounds N] [--calls N] [--out FILE]`.

One gateway serves all three; short rounds of calls go to each way in turn, in an order that moves
on by one with each round, so that whatever else the machine does falls on all alike. Counted is the
CPU time of the gateway's process alone. Provider and upstream run in this process.

Owns: the three ways, and how a call's CPU is counted. Never judges the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from armory.runtime.version import armory_version
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.identity import IdentityProvider
from armory.testing.processes import GatewayProcess
from armory.testing.upstreams.accounts import AccountsServer

_STATIC = "a-static-token-of-sixteen-or-more"
_AT_ONCE = 8
_CPU_CLOCK = 2
"""With a process's id above it: the clock of its CPU time, as Linux numbers clocks."""


@dataclass(frozen=True, slots=True)
class Way:
    """A caller and an upstream.

    Attributes:
        name: in the results.
        token: that the caller comes with.
        upstream: key of the upstream.
    """

    name: str
    token: str
    upstream: str


def config_of(provider: IdentityProvider, upstream: AccountsServer) -> dict[str, Any]:
    """A gateway with one upstream twice: with a token of its own, and with exchanged ones."""
    fixed = provider.sign(sub="gateway", aud=upstream.url)
    exchange = {
        "type": "token_exchange",
        "issuer": provider.issuer,
        "client_id": "armory",
        "client_secret": "armory-secret",
        "audience": upstream.url,
    }
    shared = {"url": upstream.url, "headers": {"Authorization": f"Bearer {fixed}"}}
    return {
        "upstreams": {"shared": shared, "own": {"url": upstream.url, "auth": exchange}},
        "security": {
            "tokens": {"bench": {"token": _STATIC, "user": "bench"}},
            "allow_anonymous": False,
            "oauth": {"issuer": provider.issuer},
        },
        "tool_rag": {"enabled": False},
        "observability": {"log_level": "error"},
    }


async def calls(http: aiohttp.ClientSession, url: str, way: Way, count: int) -> None:
    """So many calls.

    Raises:
        RuntimeError: one was refused.
    """
    body = modern_body(1, "tools/call", {"name": f"{way.upstream}__note", "arguments": {}})
    headers = {**modern_headers(body), "Authorization": f"Bearer {way.token}"}

    async def some(each: int) -> None:
        for _ in range(each):
            async with http.post(f"{url}/mcp", json=body, headers=headers) as response:
                answer = (await messages(response))[-1]
            if "result" not in answer or answer["result"].get("isError"):
                raise RuntimeError(f"{way.name}: {json.dumps(answer)[:500]}")

    await asyncio.gather(*(some(count // _AT_ONCE) for _ in range(_AT_ONCE)))


async def measured(rounds: int, count: int) -> dict[str, Any]:
    """Microseconds of CPU per call by way, and paired ratios to the static token."""
    async with (
        IdentityProvider(lifetime=7_200) as provider,
        AccountsServer(provider.verified, provider.issuer) as upstream,
    ):
        with tempfile.TemporaryDirectory() as folder:
            config = config_of(provider, upstream)
            running = await asyncio.to_thread(GatewayProcess, config, Path(folder), wait=False)
            try:
                return await _rounds(running, provider, rounds, count)
            finally:
                await asyncio.to_thread(running.close)


async def _rounds(
    running: GatewayProcess, provider: IdentityProvider, rounds: int, count: int
) -> dict[str, Any]:
    token = provider.sign(sub="bench", aud=f"{running.url}/mcp")
    ways = [
        Way("static token", _STATIC, "shared"),
        Way("access token", token, "shared"),
        Way("access token, exchanged", token, "own"),
    ]
    clock = (~running.process.pid << 3) | _CPU_CLOCK
    spent: dict[str, list[float]] = {way.name: [] for way in ways}
    async with aiohttp.ClientSession() as http:
        for way in ways:
            await calls(http, running.url, way, count)
        for number in range(rounds):
            for way in ways[number % 3 :] + ways[: number % 3]:
                begun = time.clock_gettime_ns(clock)
                await calls(http, running.url, way, count)
                took = time.clock_gettime_ns(clock) - begun
                spent[way.name].append(took / 1_000 / (count // _AT_ONCE * _AT_ONCE))
    base = spent[ways[0].name]
    return {
        name: {
            "cpu_us": round(statistics.median(each), 1),
            "ratio": round(
                statistics.median(mine / theirs for mine, theirs in zip(each, base, strict=True)), 3
            ),
            "quartiles": [
                round(ratio, 3)
                for ratio in statistics.quantiles(
                    [mine / theirs for mine, theirs in zip(each, base, strict=True)], n=4
                )
            ],
        }
        for name, each in spent.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU of the gateway for a call, by identity.")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=240, help="in each round and way")
    parser.add_argument("--out", type=Path, help="write JSON there")
    args = parser.parse_args()
    ways = asyncio.run(measured(args.rounds, args.calls))
    found = {
        "armory": armory_version(),
        "python": sys.version.split()[0],
        "rounds": args.rounds,
        "calls": args.calls,
        "ways": ways,
    }
    text = json.dumps(found, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
