"""What must stay flat while the soak runs: memory, descriptors, tasks, processes, sessions.

Owns: the samples and what they say about growth. Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.load.driver import Connection
from benchmarks.load.processes import rss_mb

Sample = dict[str, float]
EVERY_S = 5.0
SAMPLES = 120
"""So many of a run by time, at most."""
WARM_S = 60.0
"""Caches fill, the model loads and the first abandoned sessions expire within this."""
METRICS = {"tasks": "armory_tasks", "sessions": "armory_client_sessions", "fds": "process_open_fds"}


def children(pid: int) -> int:
    """Processes that it started and that are still there, zombies included."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return sum(len(file.read_text().split()) for file in found)


async def scraped(connection: Connection) -> dict[str, float]:
    """The metrics' values that have no labels."""
    _, _, text = await connection.send("GET", b"")
    pairs = (line.split(" ") for line in text.decode().splitlines() if not line.startswith("#"))
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}


async def watch(
    url: str,
    pid: int,
    calls: Callable[[], int],
    done: asyncio.Event,
    *,
    every_s: float = EVERY_S,
    idle_s: float = 30.0,
) -> list[Sample]:
    """A sample every few seconds until `done`, and one more after everybody has left.

    Args:
        url: of `/metrics`.
        pid: of the gateway.
        calls: how many there were so far.
        done: set when the traffic is over.
        every_s: seconds between two samples.
        idle_s: how long to wait for the last one: sessions left behind expire meanwhile.
    """
    connection = Connection(url)
    await connection.open()
    begun = time.monotonic()
    samples: list[Sample] = []

    async def sample() -> None:
        values = await scraped(connection)
        samples.append(
            {
                "t_s": round(time.monotonic() - begun, 1),
                "calls": calls(),
                "rss_mb": round(rss_mb(pid), 1),
                "children": children(pid),
                **{key: values[name] for key, name in METRICS.items()},
            }
        )

    while not done.is_set():
        await sample()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), every_s)
    await asyncio.sleep(idle_s)
    await sample()
    connection.writer.close()
    return samples


def judge(samples: list[Sample], warm_s: float = WARM_S) -> dict[str, dict[str, float]]:
    """For each figure: medians of the first and the last quarter after warm-up, its most, and what
    was left when everybody had gone.
    """
    busy = samples[:-1]
    warm = [s for s in busy if s["t_s"] >= warm_s] or busy[len(busy) // 2 :]
    quarter = max(1, len(warm) // 4)
    found: dict[str, dict[str, float]] = {}
    for key in ("rss_mb", "fds", "tasks", "sessions", "children"):
        found[key] = {
            "first": statistics.median(s[key] for s in warm[:quarter]),
            "last": statistics.median(s[key] for s in warm[-quarter:]),
            "most": max(s[key] for s in busy),
            "idle": samples[-1][key],
        }
    return found
