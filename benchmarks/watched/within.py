"""A gateway that is watched and not in turn, within one process.

Owns: the program that turns watching off and on at a signal, and the rounds of either. Two
processes that run the same code differ by more than watching may cost; one process does not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from signal import SIGUSR1, SIGUSR2, Signals

import aiohttp

from armory.runtime.version import armory_version
from armory.testing.collector import Collector
from armory.testing.upstreams.http import HttpUpstream
from benchmarks.watched.figures import bars, ratio
from benchmarks.watched.gateways import Gateway, calls, made, running, ways

_SWITCHED = """\
import signal

from armory.cli.main import main
from armory.gateway.observed import ObservedPool
from armory.wire.dispatch import Dispatcher
from armory.wire.observed import ObservedDispatcher

watched = ObservedDispatcher.answer, ObservedPool.request


def plain(self, server, owner, call):
    return self._pool.request(server, owner, call)


def switch(number, _frame):
    on = watched if number == signal.SIGUSR1 else (Dispatcher.answer, plain)
    ObservedDispatcher.answer, ObservedPool.request = on


signal.signal(signal.SIGUSR1, switch)
signal.signal(signal.SIGUSR2, switch)
main()
"""
_SETTLE = 8
"""Calls after it is switched that are not counted: functions are looked up anew."""
_WARM = 800
_END_S = 6.0
"""After the last call, until the last spans are sent and records written."""


class Rounds:
    """What one way took.

    Attributes:
        off: microseconds of the event loop for a call that nobody watched, of each round.
        adds: how many more for one that somebody did.
        beside: microseconds of the other threads for a watched call, of each start.
    """

    def __init__(self) -> None:
        self.off: list[float] = []
        self.adds: list[float] = []
        self.beside: list[float] = []

    @property
    def ratios(self) -> list[float]:
        """Watched to not, of each round."""
        beside = sum(self.beside) / len(self.beside)
        return [1 + (more + beside) / off for more, off in zip(self.adds, self.off, strict=True)]


async def within(arguments: argparse.Namespace) -> dict[str, object]:
    """What watching a call adds by way: medians over the rounds."""
    took: dict[str, Rounds] = {}
    for _ in range(arguments.starts):
        await _start(arguments, took)
    ratios = {name: rounds.ratios for name, rounds in took.items()}
    ones = {name: [1.0] * len(found) for name, found in ratios.items()}
    return {
        "bars": {
            of: found
            for name, each in ratios.items()
            for of, found in bars(
                {name: statistics.median(each), "off": 1.0}, {name: each, "off": ones[name]}
            ).items()
        },
        "armory": armory_version(),
        "python": sys.version.split()[0],
        "event_loop": arguments.loop,
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "rounds": {name: len(found) for name, found in ratios.items()},
        "starts": arguments.starts,
        "calls": arguments.calls,
        "off_us_a_call": {name: _middle(rounds.off) for name, rounds in took.items()},
        "adds_us_on_the_loop": {name: _middle(rounds.adds) for name, rounds in took.items()},
        "adds_us_beside": {name: _middle(rounds.beside) for name, rounds in took.items()},
        "to_off": {name: ratio(found, ones[name]) for name, found in ratios.items()},
    }


async def _start(arguments: argparse.Namespace, took: dict[str, Rounds]) -> None:
    """Start one gateway after the other, and add what a call took in each round, by way.

    Only one at a time: what a thread does every now and then falls on as many calls as come.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="armory-watched-")))
        collector = await stack.enter_async_context(Collector())
        upstream = await stack.enter_async_context(HttpUpstream())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        found = ways(collector.url, None, arguments.only)
        del found["off"]
        for name, way in found.items():
            own, rounds = made(folder / name), took.setdefault(name, Rounds())
            seconds = arguments.minutes / arguments.starts / len(found) * 60 - 2 * _END_S
            async with running(way, upstream.url, own, arguments.loop, program=_SWITCHED) as here:
                await calls(http, here.url, _WARM)
                await asyncio.sleep(_END_S)  # what is sent for the first time takes longer
                done, before = 0, here.others_cpu_s()
                ends = time.monotonic() + seconds
                while time.monotonic() < ends or not done:
                    spent: dict[Signals, float] = {}
                    for switch in (SIGUSR1, SIGUSR2) if done % 2 else (SIGUSR2, SIGUSR1):
                        spent[switch] = await _round(http, here, switch, arguments.calls)
                    rounds.off.append(spent[SIGUSR2])
                    rounds.adds.append(spent[SIGUSR1] - spent[SIGUSR2])
                    done += 1
                    upstream.requests.clear()
                    upstream.script.received.clear()
                    collector.spans.clear()
                await asyncio.sleep(_END_S)
                beside = (here.others_cpu_s() - before) / (done * (arguments.calls + _SETTLE))
                rounds.beside.append(beside * 1e6)


async def _round(
    http: aiohttp.ClientSession, gateway: Gateway, switch: Signals, count: int
) -> float:
    """Microseconds of the event loop for a call, once it is switched."""
    gateway.send(switch)
    await calls(http, gateway.url, _SETTLE)
    began = gateway.loop_cpu_s()
    await calls(http, gateway.url, count)
    return (gateway.loop_cpu_s() - began) / count * 1e6


def _middle(values: list[float]) -> float:
    return round(statistics.median(values), 1)
