"""A child process and its pipes, on both event loops."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path
from time import perf_counter
from typing import cast

import pytest

from armory.testing.waiting import until
from armory.upstreams.transports.child import ChildTransport
from armory.upstreams.transports.lines import Lines

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(
        "anyio_backend",
        [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
        ids=["uvloop", "asyncio"],
    ),
]


class Told(asyncio.SubprocessProtocol):
    """Remembers what it is told, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.output = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.events.append("made")
        self.transport = cast("ChildTransport", transport)  # before anything is read

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        self.output += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.events.append(f"lost {fd}")

    def pause_writing(self) -> None:
        self.events.append("full")

    def resume_writing(self) -> None:
        self.events.append("empty")

    def process_exited(self) -> None:
        self.events.append("exited")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("gone")


async def child(told: Told, program: str) -> ChildTransport:
    return await ChildTransport.started(told, [sys.executable, "-c", program], {}, None)


async def test_it_has_three_pipes_and_no_other_descriptors() -> None:
    told = Told()
    await child(
        told,
        "import json, os, stat; kinds = [stat.S_ISFIFO(os.fstat(n).st_mode) for n in range(3)]\n"
        "print(json.dumps([kinds, [n for n in range(3, 200) if os.path.exists(f'/dev/fd/{n}')]]))",
    )
    await until(lambda: "gone" in told.events)
    kinds, others = json.loads(told.output)
    assert kinds == [True, True, True]
    assert len(others) <= 1  # that of the look itself
    assert told.events[0] == "made"
    assert told.events[-1] == "gone"


async def test_closing_its_output_is_noticed_while_it_lives() -> None:
    told = Told()
    transport = await child(told, "import os, sys; os.close(1); sys.stdin.read()")
    await until(lambda: "lost 1" in told.events)
    assert "exited" not in told.events
    transport.close()
    await until(lambda: "gone" in told.events)
    assert transport.get_returncode() == -signal.SIGKILL


async def test_what_it_does_not_read_waits_until_it_does() -> None:
    told = Told()
    transport = await child(
        told, "import sys; sys.stdin.buffer.read(1); print('ready', flush=True); sys.stdin.read()"
    )
    stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    stdin.write(b"x" * (1 << 20))
    assert "full" in told.events
    await until(lambda: "empty" in told.events)
    stdin.close()
    await until(lambda: "gone" in told.events)
    assert transport.get_returncode() == 0


async def test_its_exit_status_is_told_after_its_last_words() -> None:
    told = Told()
    transport = await child(told, "print('x' * 100_000); raise SystemExit(3)")
    await until(lambda: "gone" in told.events)
    assert transport.get_returncode() == 3
    assert len(told.output) == 100_001


async def test_what_waits_for_its_turn_is_not_overtaken() -> None:
    lines: list[bytes] = []
    held = False

    def take(line: bytes | bytearray) -> float:
        lines.append(bytes(line))
        return 0.0 if len(lines) % 1_000 else 0.001

    def read_on(on: bool) -> None:
        nonlocal held
        held = not on
        pipe = cast("asyncio.ReadTransport", told.transport.get_pipe_transport(1))
        if not pipe.is_closing():
            (pipe.resume_reading if on else pipe.pause_reading)()

    class Reading(Told):
        def pipe_data_received(self, fd: int, data: bytes | str) -> None:
            assert isinstance(data, bytes)
            assert not held
            reader.take(data)

    reader = Lines("up", 1 << 20, take, lambda _id, _why: None, read_on)
    told = Reading()
    await child(told, "for i in range(20_000): print('line', i, 'x' * 100)")
    await until(lambda: len(lines) == 20_000)
    assert [int(line.split()[1]) for line in lines] == list(range(20_000))
    told.transport.close()


async def test_heavy_lines_take_turns_with_everything_else() -> None:
    lines: list[bytes] = []
    reads: list[bool] = []

    def take(line: bytes | bytearray) -> None:
        lines.append(bytes(line))
        begun = perf_counter()
        while perf_counter() - begun < 0.002:
            pass

    reader = Lines("up", 1 << 20, take, lambda _id, _why: None, reads.append)
    assert not reader.take(b"1\n2\n3\n4\n")
    assert (lines, reads) == ([b"1"], [False])
    await until(lambda: reads[-1])
    assert lines == [b"1", b"2", b"3", b"4"]


async def test_a_line_that_grows_without_end_takes_turns_with_everything_else() -> None:
    reads: list[bool] = []
    reader = Lines("up", 128 << 20, lambda _: None, lambda _id, _why: None, reads.append)
    part = b"x" * (1 << 16)
    assert any(not reader.take(part) for _ in range(2_000))
    assert reads == [False]
    await until(lambda: reads[-1])


async def test_its_descriptors_are_closed() -> None:
    async def one() -> None:
        told = Told()
        transport = await child(told, "import time; time.sleep(60)")
        transport.close()
        await until(lambda: "gone" in told.events)

    def descriptors() -> set[str]:
        return set(os.listdir("/proc/self/fd"))

    await one()
    gc.collect()  # which closes what earlier tests left
    before = descriptors()
    for _ in range(3):
        await one()
    await until(lambda: descriptors() <= before)


async def test_what_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    told = Told()
    with pytest.raises(OSError, match="nowhere"):
        await ChildTransport.started(told, [str(tmp_path / "nowhere")], {}, None)
    assert told.events == []
