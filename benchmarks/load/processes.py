"""Processes under measurement: started on one core, timed, weighed and put to sleep.

Owns: what is read from `/proc` and from a process's CPU clock. Linux only. Never imports targets.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
ENV = {**os.environ, "PYTHONPATH": ROOT}


def end_on_sigterm() -> None:
    """Let SIGTERM end this program as Ctrl-C does: what it started ends, too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes], timeout_s: float = 60) -> None:
    """Wait until something listens on `port`.

    Raises:
        RuntimeError: the process ended first, or the time is up.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} exited with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on {port} after {timeout_s} s")


@contextlib.contextmanager
def process(
    argv: list[str],
    core: int,
    port: int,
    log: Path,
    *,
    env: dict[str, str] | None = None,
    timeout_s: float = 60,
) -> Iterator[int]:
    """A child process on one core, in a process group of its own, listening on `port`.

    What a gateway keeps for itself, it keeps beside its log.

    Yields:
        Its pid, which is the group's too.
    """
    with log.open("ab") as out:
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *argv],
            env={**ENV, "ARMORY_HOME": str(log.parent), **(env or {})},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            await_port(port, child, timeout_s)
            yield child.pid
        finally:
            wake(child.pid)
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(5)


def sleep(pid: int) -> None:
    """Stop a process group, so that it takes no time from the others."""
    os.killpg(pid, signal.SIGSTOP)


def wake(pid: int) -> None:
    """Let it go on; nothing if it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGCONT)


def rss_mb(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def machine() -> dict[str, str | int]:
    """What it was measured on."""
    return {"system": platform.system(), "processor": platform.machine(), "cores": cores()}


def cores() -> int:
    """How many this program may use."""
    return len(os.sched_getaffinity(0))


def versions() -> dict[str, str]:
    """What was measured."""
    names = ("armory-mcp-gateway", "aiohttp", "msgspec", "mcp", "uvloop")
    found = {"python": sys.version.split()[0]}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
