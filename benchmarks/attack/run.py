"""Attacks on a gateway, one after another and all at once, with quiet between them.

Owns: the processes, the order, the report. Quiet and attack take turns for as long as is asked for;
every figure of an attack stands beside that of the quiet before and after it, and beside what a
server that does nothing showed meanwhile: a busy machine is seen in both. Linux only; 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.attack import clients, upstream
from benchmarks.attack.good import Authorized
from benchmarks.attack.placing import (
    GATEWAY_CORES,
    OTHER_CORES,
    Role,
    placed,
    waited_s,
)
from benchmarks.attack.report import Window, long_turns, report
from benchmarks.load.processes import ENV, ROOT, await_port, end_on_sigterm, free_port, rss_mb
from benchmarks.soak.watch import children

TOKENS = {name: f"{name}-{'t' * 40}" for name in ("good", "evil", "admin")}
UPSTREAM = [sys.executable, "-m", "benchmarks.attack.upstream"]
SAMPLE_S = 1.0
GOOD = ("good", "pipe")


@dataclass
class House:
    """What is attacked.

    Attributes:
        folder: configuration, logs, switches.
        port: the gateway's.
        control: of a server that does nothing.
        apart: whether the gateway has cores to itself.
        upstreams: name → its entry in `armory.yaml`.
    """

    folder: Path
    apart: bool
    port: int = field(default_factory=free_port)
    control: int = field(default_factory=free_port)
    upstreams: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def base(self) -> str:
        """The gateway's address."""
        return f"http://127.0.0.1:{self.port}"

    def switch(self, kind: str) -> Path:
        """The file that makes an upstream hostile."""
        return self.folder / f"{kind}.on"

    def write(self) -> Path:
        """The configuration: everything at its default but ports, tokens and upstreams."""
        tokens = {name: {"token": token} for name, token in TOKENS.items()}
        config = {
            "server": {"port": self.port},
            "security": {"tokens": tokens},
            "upstreams": self.upstreams,
            "storage": {
                "url": f"sqlite:///{self.folder}/armory.db",
                "cache_dir": str(self.folder / "cache"),
            },
        }
        file = self.folder / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        return file


@contextlib.contextmanager
def started(argv: list[str], log: Path, port: int = 0) -> Generator[subprocess.Popen[bytes]]:
    """A process in a group of its own; with a port, when it listens."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            argv,
            env={**ENV, "ARMORY_HOME": str(log.parent)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        if port:
            await_port(port, child, 120)
        yield child
    finally:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(5)


def serve_upstreams(house: House, stack: contextlib.ExitStack, only: list[str]) -> None:
    """Start those that listen, and say how the gateway reaches each."""
    http = {"good": ("none", 200), "calls": ("none", 0)}
    large = [kind for kind in upstream.LARGE_KINDS if f"upstream: {kind}" in only]
    http |= {kind: (kind, 0) for kind in (*upstream.HTTP_KINDS, *large)}
    for name, (kind, count) in http.items():
        port = free_port()
        argv = [*UPSTREAM, "--kind", kind, "--switch", str(house.switch(kind))]
        argv += ["--port", str(port), "--tools", str(count)]
        argv = placed(argv, Role.GOOD if name in GOOD else Role.EVIL, apart=house.apart)
        stack.enter_context(started(argv, house.folder / f"{name}.log", port))
        house.upstreams[name] = {"url": f"http://127.0.0.1:{port}/mcp"}
    for name, kind in [
        ("pipe", "none"),
        ("pipes", "none"),
        *((k, k) for k in upstream.STDIO_KINDS),
    ]:
        argv = [*UPSTREAM, "--kind", kind, "--switch", str(house.switch(kind))]
        argv = placed(argv, Role.GOOD if name in GOOD else Role.EVIL, apart=house.apart)
        house.upstreams[name] = {
            "command": argv[0],
            "args": argv[1:],
            "env": {"PYTHONPATH": ROOT},
        }


class Watch:
    """Samples of the gateway: memory, CPU, log, what `/metrics` says.

    Args:
        house: what is attacked.
        pid: the gateway's.
    """

    def __init__(self, house: House, pid: int) -> None:
        self._house = house
        self._pid = pid
        self.samples: list[dict[str, Any]] = []

    async def ready(self) -> None:
        """Wait until every upstream is there.

        Raises:
            SystemExit: they are not after two minutes.
        """
        down: list[str] = []
        for _ in range(120):
            if not (down := (await self._metrics())["down"]):
                return
            await asyncio.sleep(1)
        raise SystemExit(f"not ready: {', '.join(down)}")

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            sample: dict[str, Any] = {"t": time.monotonic(), "rss_mb": round(rss_mb(self._pid), 1)}
            sample["cpu_s"] = self._cpu_s()
            sample["waited_s"] = waited_s(self._pid)
            sample["children"] = children(self._pid)
            sample["log_bytes"] = (self._house.folder / "armory.log").stat().st_size
            with contextlib.suppress(OSError, EOFError, TimeoutError, ValueError):
                async with asyncio.timeout(5):
                    sample |= await self._metrics()
            self.samples.append(sample)
            await asyncio.sleep(SAMPLE_S)

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def _metrics(self) -> dict[str, Any]:
        connection = Authorized(f"{self._house.base}/metrics", TOKENS["admin"])
        await connection.open()
        _, _, text = await connection.send("GET", b"")
        connection.writer.close()
        found: dict[str, Any] = {"down": []}
        names = {"armory_tasks": "tasks", "armory_client_sessions": "sessions"}
        names |= {"process_open_fds": "fds", "armory_client_streams": "streams"}
        for line in text.decode().splitlines():
            key, _, value = line.rpartition(" ")
            if key in names:
                found[names[key]] = float(value)
            elif key.startswith("armory_upstream_up{") and not float(value):
                found["down"].append(key.split('"')[1])
        return found


async def attacked(house: House, plan: list[str], seconds: float, gateway: Any) -> list[Window]:
    """Quiet and attacks in turns; when each began and ended."""
    windows: list[Window] = []
    for name in plan:
        for what in ("", name):
            begin = time.monotonic()
            with contextlib.ExitStack() as stack:
                if what:
                    attack(house, what, seconds, stack)
                await asyncio.sleep(seconds)
            windows.append(Window(what, begin, time.monotonic()))
            if gateway.poll() is not None:
                return windows
    return windows


def attack(house: House, name: str, seconds: float, stack: contextlib.ExitStack) -> None:
    """Begin it; `stack` ends it."""
    every = name == "all at once"
    for one in clients.ATTACKS:
        if every or name == f"client: {one}":
            argv = [sys.executable, "-m", "benchmarks.attack.clients", one]
            argv += ["--base", house.base, "--token", TOKENS["evil"], "--seconds", str(seconds)]
            argv = placed(argv, Role.EVIL, apart=house.apart)
            stack.enter_context(started(argv, house.folder / "clients.log"))
    large = [kind for kind in upstream.LARGE_KINDS if name == f"upstream: {kind}"]
    for kind in (*upstream.HTTP_KINDS, *upstream.STDIO_KINDS, *large):
        if every or name == f"upstream: {kind}":
            house.switch(kind).touch()
            stack.callback(house.switch(kind).unlink)


ATTACKS = (
    *(f"client: {name}" for name in clients.ATTACKS),
    *(f"upstream: {kind}" for kind in (*upstream.HTTP_KINDS, *upstream.STDIO_KINDS)),
    "all at once",
)


async def measured(
    house: House, args: argparse.Namespace, gateway: subprocess.Popen[bytes]
) -> dict[str, Any]:
    """The whole run's report."""
    watch = Watch(house, gateway.pid)
    await watch.ready()
    sampling = asyncio.ensure_future(watch.run())
    argv = [sys.executable, "-m", "benchmarks.attack.good", "--token", TOKENS["good"]]
    argv += ["--base", house.base, "--control", f"http://127.0.0.1:{house.control}"]
    windows: list[Window] = []
    chosen = [n for n in ATTACKS if not args.only or any(only in n for only in args.only)]
    chosen += [f"upstream: {k}" for k in upstream.LARGE_KINDS if f"upstream: {k}" in args.only]
    end = time.monotonic() + 60 * args.minutes
    argv = placed(argv, Role.GOOD, apart=house.apart)
    with started(argv, house.folder / "good.jsonl"):
        await asyncio.sleep(5)
        while time.monotonic() < end and gateway.poll() is None:
            windows += await attacked(house, chosen, args.window, gateway)
            write(house, args, windows, watch, gateway)
        await asyncio.sleep(args.window)
    sampling.cancel()
    return write(house, args, windows, watch, gateway)


def write(
    house: House,
    args: argparse.Namespace,
    windows: list[Window],
    watch: Watch,
    gateway: subprocess.Popen[bytes],
) -> dict[str, Any]:
    """The report so far, as a file: a run that is ended early has shown something, too."""
    written = (house.folder / name for name in ("good.jsonl", "core.jsonl"))
    lines = [line for file in written for line in file.read_text().splitlines()]
    answers = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    log = (house.folder / "armory.log").read_text(errors="replace")
    made = report(windows, answers, watch.samples, log, GOOD)
    made["gateway_exited"] = gateway.poll()
    made["cores"] = {"gateway": GATEWAY_CORES, "others": OTHER_CORES} if house.apart else "shared"
    turns = house.folder / "turns.json"
    if turns.exists():
        noted = json.loads(turns.read_text())
        made["long_turns"] = long_turns(windows, noted)
        made["stacks"] = {key: noted[key][:20] for key in ("stacks", "stacks_while_late")}
    made["windows"] = [asdict(window) for window in windows]
    args.out.write_text(json.dumps(made, indent=1) + "\n")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--window", type=float, default=12.0, help="seconds of each attack")
    parser.add_argument("--only", action="append", default=[], help="attacks whose name holds this")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/attack/results.json"))
    parser.add_argument(
        "--share-cores", action="store_true", help="all on the same cores as the gateway"
    )
    parser.add_argument(
        "--turns", action="store_true", help="note long turns of the event loop, with stacks"
    )
    parser.add_argument("--keep", type=Path, help="keep the logs in this folder")
    args = parser.parse_args()
    end_on_sigterm()
    with contextlib.ExitStack() as stack:
        folder = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        apart = GATEWAY_CORES != OTHER_CORES and not args.share_cores
        if apart:
            os.sched_setaffinity(0, OTHER_CORES)
        house = House(folder, apart=apart)
        serve_upstreams(house, stack, args.only)
        idle = [sys.executable, "-m", "benchmarks.attack.idle", str(house.control)]
        idle = placed(idle, Role.GOOD, apart=house.apart)
        stack.enter_context(started(idle, folder / "idle.log", house.control))
        program = ["armory.cli.main"]
        if args.turns:
            program = ["benchmarks.attack.turns", str(folder / "turns.json")]
        serve = [sys.executable, "-m", *program, "serve", "--config", str(house.write())]
        serve = placed(serve, Role.GATEWAY, apart=house.apart)
        running = started(serve, folder / "armory.log", house.port)
        gateway = stack.enter_context(running)
        core = [sys.executable, "-m", "benchmarks.attack.core"]
        core = placed(core, Role.GATEWAY, apart=house.apart)
        stack.enter_context(started(core, folder / "core.jsonl"))
        result = asyncio.run(measured(house, args, gateway))
    shown = {key: value for key, value in result.items() if key not in ("samples", "windows")}
    print(json.dumps(shown, indent=1))
    if result["failures"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
