"""The gateways of this benchmark: how each is watched, started, called and measured.

Linux only: CPU time is read from the kernel's clock of a process and its list of threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

import aiohttp
import yaml

from armory.testing.clients.raw import modern_body, modern_headers

ROOT = Path(__file__).parents[2]
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

    def loop_cpu_s(self) -> float:
        """CPU time so far of the thread that has the event loop."""
        return self._thread_s(self._process.pid)

    def others_cpu_s(self) -> float:
        """CPU time so far of its other threads that run."""
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(self._thread_s(int(t.name)) for t in threads) - self.loop_cpu_s()

    def _thread_s(self, thread: int) -> float:
        """CPU time of one thread; none where it has ended."""
        try:
            text = Path(f"/proc/{self._process.pid}/task/{thread}/schedstat").read_text()
        except OSError:
            return 0.0
        return int(text.split()[0]) / 1e9

    def send(self, signal: Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(signal)


@contextlib.asynccontextmanager
async def running(
    way: Way,
    upstream: str,
    folder: Path,
    loop: str,
    below: Sequence[str] = (),
    program: str | None = None,
) -> AsyncGenerator[Gateway]:
    """A gateway in a process of its own, until the context ends.

    Args:
        way: how it is watched.
        upstream: its URL.
        folder: where it runs.
        loop: its event loop.
        below: a command before it.
        program: Python code that runs the command line; None: as usual.
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
        *(("-m", "armory.cli.main") if program is None else ("-c", program)),
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


def made(folder: Path) -> Path:
    """The folder, new."""
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
