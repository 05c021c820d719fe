"""What watching costs: CPU of the gateway for a call with nothing watched, traces, the audit.

`python -m benchmarks.watched [--before CHECKOUT] [--minutes N [--within] | --instructions]
[--calls N] [--loop NAME] [--starts N] [--only WAY …] [--out FILE]`.

One gateway for each way runs beside the others; short rounds of calls go to each in turn, in an
order that moves on by one with each round, so that whatever else the machine does falls on all
alike. Counted is the CPU time of the gateway's process alone, to the nanosecond, where one has an
audit until half a second after the last answer, of all of them: it is written a moment after a
call, and a gateway that has nothing to do takes its time as well. It takes as many
rounds as fit into its minutes, on a busy machine fewer. The more rounds the better on a machine
whose speed changes: without an audit they may be short. One process differs from another that runs
the same code, by some 3 %, so all are started anew a few times.

With `--within` each gateway is watched and not in turn, within one process: what the threads beside
the event loop take is added to that. So it says what watching a call costs to 0.3 %, while whatever
else is different about a process that watches, a larger memory for one, falls out.

With `--instructions` each gateway runs by itself below valgrind's callgrind, and what is counted is
the instructions of a call: they hold on a machine that is busy with other things. Two runs of
different length are counted, so that what is done once falls out, and what the process does by
itself in the same time is taken off. Of no trace at all instead of 1 %, because few calls make the
share an accident; what a kept trace costs is in `traces_all`.
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
from pathlib import Path

import aiohttp

from armory.runtime.version import armory_version
from armory.testing.collector import Collector
from armory.testing.upstreams.http import HttpUpstream
from benchmarks.load.instructions import UNTIMED
from benchmarks.watched.figures import bars, ratio
from benchmarks.watched.gateways import Way, calls, made, running, ways
from benchmarks.watched.within import within

_LEAST_ROUNDS = 5
_IDLE_S = 4.0
_WRITTEN_S = 0.5
"""After a round, until the last records of an audit are written: it is part of what they cost."""
_CALLGRIND = (
    "valgrind",
    "--tool=callgrind",
    "--instr-atstart=no",
    "--callgrind-out-file=calls.out",
)


async def measured(arguments: argparse.Namespace) -> dict[str, object]:
    """Microseconds a call by way, and what each adds to `off`: medians over the rounds."""
    took: dict[str, list[float]] = {}
    for _ in range(arguments.starts):
        await rounds(arguments, took)
    base = took["off"]
    return {
        "bars": bars({name: statistics.median(t) for name, t in took.items()}, took),
        "armory": armory_version(),
        "python": sys.version.split()[0],
        "event_loop": arguments.loop,
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "rounds": len(base),
        "starts": arguments.starts,
        "calls": arguments.calls,
        "us_a_call": {name: round(statistics.median(t), 1) for name, t in took.items()},
        "to_off": {name: ratio(t, base) for name, t in took.items()},
    }


async def rounds(arguments: argparse.Namespace, took: dict[str, list[float]]) -> None:
    """Start the gateways, and add what a call took in each round, by way."""
    count, minutes = arguments.calls, arguments.minutes / arguments.starts
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-watched-")))
        collector = await stack.enter_async_context(Collector())
        upstream = await stack.enter_async_context(HttpUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        found = ways(collector.url, arguments.before, arguments.only)
        gateways = {
            name: await stack.enter_async_context(
                running(way, upstream.url, made(folder / name), arguments.loop)
            )
            for name, way in found.items()
        }
        for gateway in gateways.values():
            await calls(http, gateway.url, count)
        audited = any(way.audit for way in found.values())
        names, done, ends = list(gateways), 0, time.monotonic() + minutes * 60
        while done < _LEAST_ROUNDS or time.monotonic() < ends:
            for name in names:
                began = gateways[name].cpu_s()
                await calls(http, gateways[name].url, count)
                if audited:
                    await asyncio.sleep(_WRITTEN_S)
                took.setdefault(name, []).append((gateways[name].cpu_s() - began) / count * 1e6)
            names.append(names.pop(0))
            done += 1
            upstream.requests.clear()
            upstream.script.received.clear()
            collector.spans.clear()


async def counted(arguments: argparse.Namespace) -> dict[str, object]:
    """Thousands of instructions a call by way, and their ratio to `off`."""
    count = arguments.calls
    found: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-watched-")))
        collector = await stack.enter_async_context(Collector())
        upstream = await stack.enter_async_context(HttpUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for name, way in ways(collector.url, arguments.before, arguments.only).items():
            if "ARG" in "".join(way.environ):
                never = {**way.environ, "OTEL_TRACES_SAMPLER_ARG": "0.0"}
                way, name = Way(never, {}), name.replace("1_percent", "none_kept")
            own = made(folder / name)
            async with running(
                way, upstream.url, own, arguments.loop, _CALLGRIND, UNTIMED
            ) as gateway:
                await calls(http, gateway.url, count)
                idle, seconds = await gateway.instructions(own, asyncio.sleep(_IDLE_S))
                few, few_s = await gateway.instructions(own, calls(http, gateway.url, count))
                many, many_s = await gateway.instructions(own, calls(http, gateway.url, 3 * count))
            spent = many - few - idle / seconds * (many_s - few_s)
            found[name] = spent / (2 * count) / 1e3
            print(name, round(found[name], 1), file=sys.stderr, flush=True)
    return {
        "bars": bars(found),
        "armory": armory_version(),
        "python": sys.version.split()[0],
        "event_loop": arguments.loop,
        "calls": count,
        "thousand_instructions_a_call": {name: round(value, 1) for name, value in found.items()},
        "to_off": {name: round(value / found["off"], 3) for name, value in found.items()},
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout, to be measured beside")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--calls", type=int, default=240, help="of one round, to one gateway")
    parser.add_argument("--starts", type=int, default=4, help="of the gateways")
    parser.add_argument("--only", action="append", help="a way to be measured beside `off`")
    parser.add_argument("--loop", default="uvloop", help="the event loop of the gateways")
    parser.add_argument("--instructions", action="store_true", help="count them, by callgrind")
    parser.add_argument("--within", action="store_true", help="on and off in one process")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    how = within if arguments.within else counted if arguments.instructions else measured
    found = asyncio.run(how(arguments))
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
