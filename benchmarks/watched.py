"""What watching costs: CPU of the gateway for a call with nothing watched, traces, the audit.

`python -m benchmarks.watched [--before CHECKOUT] [--minutes N | --instructions] [--calls N]
[--out FILE]`.

One gateway for each way runs beside the others; short rounds of calls go to each in turn, in an
order that moves on by one with each round, so that whatever else the machine does falls on all
alike. Counted is the CPU time of the gateway's process alone, to the nanosecond. It takes as many
rounds as fit into its minutes, on a busy machine fewer.

With `--instructions` each gateway runs by itself below valgrind's callgrind, and what is counted is
the instructions of a call: they hold on a machine that is busy with other things.
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
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml

from armory.runtime.version import armory_version
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.collector import Collector
from armory.testing.upstreams.http import ScriptedUpstream

ROOT = Path(__file__).parents[1]
_LEAST_ROUNDS = 5
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


def ways(collector: str, before: Path | None) -> dict[str, Way]:
    """The gateways by name."""
    otel = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    sampled = {**otel, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    found = {
        "off": Way({}, {}),
        "traces_1_percent": Way({**sampled, "OTEL_TRACES_SAMPLER_ARG": "0.01"}, {}),
        "traces_1_percent_no_metrics": Way(
            {**sampled, "OTEL_TRACES_SAMPLER_ARG": "0.01", "OTEL_METRICS_EXPORTER": "none"}, {}
        ),
        "traces_all": Way(otel, {}),
        "audit_file": Way({}, {"to": "audit.jsonl"}),
    }
    return {"before": Way({}, {}, before), **found} if before else found


class Gateway:
    """One gateway that runs."""

    def __init__(self, process: Process, url: str) -> None:
        self._process = process
        self.url = url

    async def counting(self, state: str) -> None:
        """Have its instructions counted from now on (`on`), or no more (`off`)."""
        command = ("callgrind_control", "-i", state, str(self._process.pid))
        control = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        if await control.wait():
            raise SystemExit("callgrind_control failed")

    def cpu_s(self) -> float:
        """CPU time so far."""
        return time.clock_gettime(~self._process.pid << 3 | _SCHED)


@contextlib.asynccontextmanager
async def running(
    way: Way, upstream: str, folder: Path, below: Sequence[str] = ()
) -> AsyncGenerator[Gateway]:
    """A gateway in a process of its own, until the context ends; `below` is a command before it."""
    config = {
        "server": {"port": 0},
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
        "-m",
        "armory.cli.main",
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


async def measured(before: Path | None, minutes: float, count: int) -> dict[str, object]:
    """Microseconds a call by way, and what each adds to `off`: medians over the rounds."""
    took: dict[str, list[float]] = {}
    ends = time.monotonic() + minutes * 60
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-watched-")))
        collector = await stack.enter_async_context(Collector())
        upstream = await stack.enter_async_context(ScriptedUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        gateways = {
            name: await stack.enter_async_context(running(way, upstream.url, _made(folder / name)))
            for name, way in ways(collector.url, before).items()
        }
        for gateway in gateways.values():
            await calls(http, gateway.url, count)
        names, rounds = list(gateways), 0
        while rounds < _LEAST_ROUNDS or time.monotonic() < ends:
            for name in names:
                began = gateways[name].cpu_s()
                await calls(http, gateways[name].url, count)
                took.setdefault(name, []).append((gateways[name].cpu_s() - began) / count * 1e6)
            names.append(names.pop(0))
            rounds += 1
            upstream.requests.clear()
            upstream.script.received.clear()
            collector.spans.clear()
    base = took["off"]
    return {
        "armory": armory_version(),
        "python": sys.version.split()[0],
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "rounds": rounds,
        "calls": count,
        "us_a_call": {name: round(statistics.median(t), 1) for name, t in took.items()},
        "to_off": {name: ratio(t, base) for name, t in took.items()},
    }


def ratio(took: list[float], base: list[float]) -> dict[str, float]:
    """How a way compares with `off`, round by round: the median, and its interval (95 %)."""
    ratios = sorted(a / b for a, b in zip(took, base, strict=True))
    margin = round(0.98 * len(ratios) ** 0.5)
    middle = len(ratios) // 2
    return {
        "median": round(statistics.median(ratios), 3),
        "low": round(ratios[max(0, middle - margin)], 3),
        "high": round(ratios[min(len(ratios) - 1, middle + margin)], 3),
    }


async def counted(before: Path | None, count: int) -> dict[str, object]:
    """Thousands of instructions a call by way, and their ratio to `off`."""
    found: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-watched-")))
        collector = await stack.enter_async_context(Collector())
        upstream = await stack.enter_async_context(ScriptedUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for name, way in ways(collector.url, before).items():
            own = _made(folder / name)
            async with running(way, upstream.url, own, _CALLGRIND) as gateway:
                await calls(http, gateway.url, count)
                await gateway.counting("on")
                await calls(http, gateway.url, count)
                await gateway.counting("off")
            (total,) = re.findall(r"(?m)^totals: (\d+)", (own / "calls.out").read_text())
            found[name] = int(total) / count / 1e3
            print(name, round(found[name], 1), file=sys.stderr, flush=True)
    return {
        "armory": armory_version(),
        "python": sys.version.split()[0],
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
    parser.add_argument("--instructions", action="store_true", help="count them, by callgrind")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.instructions:
        found = asyncio.run(counted(arguments.before, arguments.calls))
    else:
        found = asyncio.run(measured(arguments.before, arguments.minutes, arguments.calls))
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
