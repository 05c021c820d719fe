"""What watching costs: CPU of the gateway for a call with nothing watched, traces, the audit.

`python -m benchmarks.watched [--before CHECKOUT] [--minutes N | --instructions] [--calls N]
[--loop NAME] [--starts N] [--only WAY …] [--out FILE]`.

One gateway for each way runs beside the others; short rounds of calls go to each in turn, in an
order that moves on by one with each round, so that whatever else the machine does falls on all
alike. Counted is the CPU time of the gateway's process alone, to the nanosecond, where one has an
audit until half a second after the last answer, of all of them: it is written a moment after a
call, and a gateway that has nothing to do takes its time as well. It takes as many
rounds as fit into its minutes, on a busy machine fewer. The more rounds the better on a machine
whose speed changes: without an audit they may be short. One process differs from another that runs
the same code, by some 3 %, so all are started anew a few times.

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
import re
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml

from armory.runtime.version import armory_version
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.collector import Collector
from armory.testing.upstreams.http import ScriptedUpstream
from benchmarks.load.instructions import UNTIMED

ROOT = Path(__file__).parents[1]
_LEAST_ROUNDS = 5
_IDLE_S = 4.0
_WRITTEN_S = 0.5
"""After a round, until the last records of an audit are written: it is part of what they cost."""
BARS = {
    "off": ("before", 1.05),
    "traces_1_percent": ("off", 1.05),
    "traces_none_kept": ("off", 1.05),
} | {f"audit_{to}": ("off", 1.1) for to in ("file", "database")}
"""By way: beside which other one it is looked at, and how many times that one's CPU it may take."""
_CALLGRIND = (
    "valgrind",
    "--tool=callgrind",
    "--instr-atstart=no",
    "--callgrind-out-file=calls.out",
)
_AT_ONCE = 8
_SCHED = 2
"""With a process's id above it: the clock of its CPU time, as Linux numbers clocks."""


@dataclass(frozen=True, slots=True)
class Way:
    """One gateway.

    Attributes:
        environ: variables beside the process's own.
        audit: what `observability.audit` says.
        code: the checkout that it runs.
        config: blocks of the configuration beside the usual.
    """

    environ: Mapping[str, str]
    audit: Mapping[str, str]
    code: Path = ROOT
    config: Mapping[str, object] = field(default_factory=dict[str, object])


def ways(
    collector: str, before: Path | None, only: Collection[str] | None = None
) -> dict[str, Way]:
    """The gateways by name: all, or `off` and those named."""
    otel = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    sampled = {**otel, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    found = {
        "off": Way({}, {}),
        "traces_1_percent": Way({**sampled, "OTEL_TRACES_SAMPLER_ARG": "0.01"}, {}),
        "traces_1_percent_no_metrics": Way(
            {**sampled, "OTEL_TRACES_SAMPLER_ARG": "0.01", "OTEL_METRICS_EXPORTER": "none"}, {}
        ),
        "metrics": Way({**otel, "OTEL_TRACES_EXPORTER": "none"}, {}),
        "traces_all": Way(otel, {}),
        "audit_file": Way({}, {"to": "audit.jsonl"}),
        "audit_database": Way({}, {"to": "database"}),
    }
    if before is not None:
        found = {"before": Way({}, {}, before), **found}
    return {name: way for name, way in found.items() if not only or name in ("off", *only)}


def _outputs(folder: Path) -> set[Path]:
    return set(folder.glob("calls.out*"))


def _total(output: Path) -> int:
    """Instructions in a file of callgrind's."""
    return int(re.findall(r"(?m)^(?:summary|totals): (\d+)", output.read_text())[-1])


class Gateway:
    """One gateway that runs."""

    def __init__(self, process: Process, url: str) -> None:
        self._process = process
        self.url = url

    async def _control(self, *command: str) -> None:
        control = await asyncio.create_subprocess_exec(
            "callgrind_control",
            *command,
            str(self._process.pid),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await control.wait():
            raise SystemExit("callgrind_control failed")

    async def instructions(self, folder: Path, while_: Awaitable[object]) -> tuple[int, float]:
        """(instructions, seconds) that it takes while something is done.

        Args:
            folder: where it runs.
            while_: what is done.
        """
        known = _outputs(folder)
        await self._control("-i", "on")
        began = time.monotonic()
        await while_
        took = time.monotonic() - began
        await self._control("-i", "off")
        await self._control("-d")
        (written,) = _outputs(folder) - known
        return _total(written), took

    def cpu_s(self) -> float:
        """CPU time so far."""
        return time.clock_gettime(~self._process.pid << 3 | _SCHED)


@contextlib.asynccontextmanager
async def running(
    way: Way, upstream: str, folder: Path, loop: str, below: Sequence[str] = ()
) -> AsyncGenerator[Gateway]:
    """A gateway in a process of its own, until the context ends; `loop` is its event loop, `below`
    a command before it.
    """
    config = {
        "server": {"port": 0, "event_loop": loop},
        "upstreams": {"web": {"url": upstream}},
        "tool_rag": {"enabled": False},
        **({"observability": {"audit": dict(way.audit)}} if way.audit else {}),
        **way.config,
    }
    (folder / "armory.yaml").write_text(yaml.safe_dump(config))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environ |= {"ARMORY_HOME": str(folder / "home"), "PYTHONPATH": str(way.code), **way.environ}
    process = await asyncio.create_subprocess_exec(
        *below,
        sys.executable,
        *(("-c", UNTIMED) if below else ("-m", "armory.cli.main")),
        "serve",
        cwd=folder,
        env=environ,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    url = ""
    while not url:
        line = (await process.stderr.readline()).decode()
        if not line:
            raise SystemExit(f"the gateway in {folder} ended")
        if found := re.search(r"listening on (http://[^\s\"]+)", line):
            url = found[1]
    drained = asyncio.ensure_future(process.stderr.read())
    try:
        yield Gateway(process, url)
    finally:
        process.terminate()
        await process.wait()
        await drained


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def calls(http: aiohttp.ClientSession, url: str, count: int) -> None:
    """So many calls, a few at a time."""
    body = modern_body(1, "tools/call", {"name": "web__who", "arguments": {}})
    headers = modern_headers(body)

    async def some(number: int) -> None:
        for _ in range(number):
            async with http.post(url, json=body, headers=headers) as answer:
                if b'"error"' in await answer.read():
                    raise SystemExit(f"a call failed: {await answer.text()}")

    await asyncio.gather(*(some(count // _AT_ONCE) for _ in range(_AT_ONCE)))


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
        upstream = await stack.enter_async_context(ScriptedUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        found = ways(collector.url, arguments.before, arguments.only)
        gateways = {
            name: await stack.enter_async_context(
                running(way, upstream.url, _made(folder / name), arguments.loop)
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


def bars(
    cost: Mapping[str, float], rounds: Mapping[str, list[float]] | None = None
) -> dict[str, object]:
    """Each bar, and whether it holds.

    Args:
        cost: of a call, by way.
        rounds: likewise in each round; None: there are none, and `cost` is exact.
    """
    found: dict[str, object] = {}
    for name, (other, bar) in BARS.items():
        if name in cost and other in cost:
            beside = {"median": round(cost[name] / cost[other], 3)}
            if rounds is not None:
                beside = ratio(rounds[name], rounds[other])
            holds = beside["median"] <= bar
            found[f"{name} / {other}"] = {**beside, "bar": bar, "holds": holds}
    return found


def ratio(took: list[float], base: list[float]) -> dict[str, float]:
    """How a way compares with another, round by round: the median, and its interval (95 %)."""
    ratios = sorted(a / b for a, b in zip(took, base, strict=True))
    margin = round(0.98 * len(ratios) ** 0.5)
    middle = len(ratios) // 2
    return {
        "median": round(statistics.median(ratios), 3),
        "low": round(ratios[max(0, middle - margin)], 3),
        "high": round(ratios[min(len(ratios) - 1, middle + margin)], 3),
    }


async def counted(arguments: argparse.Namespace) -> dict[str, object]:
    """Thousands of instructions a call by way, and their ratio to `off`."""
    count = arguments.calls
    found: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-watched-")))
        collector = await stack.enter_async_context(Collector())
        upstream = await stack.enter_async_context(ScriptedUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for name, way in ways(collector.url, arguments.before, arguments.only).items():
            if "ARG" in "".join(way.environ):
                never = {**way.environ, "OTEL_TRACES_SAMPLER_ARG": "0.0"}
                way, name = Way(never, {}), name.replace("1_percent", "none_kept")
            own = _made(folder / name)
            async with running(way, upstream.url, own, arguments.loop, _CALLGRIND) as gateway:
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
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = asyncio.run((counted if arguments.instructions else measured)(arguments))
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
