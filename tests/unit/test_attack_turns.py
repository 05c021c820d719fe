"""The attacks' tool sees long turns of the loop that the gateway runs on.

Owns: `benchmarks.attack.turns.Turns`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from armory.cli.gateway.event_loop import loop_factory
from benchmarks.attack.turns import LONG_S, Turns

turns = Turns(Path(sys.argv[1]))
turns.start()

async def long_turn():
    end = time.thread_time() + 2 * LONG_S
    while time.thread_time() < end:
        pass

async def main():
    await asyncio.create_task(long_turn())

with asyncio.Runner(loop_factory=loop_factory(sys.argv[2])) as runner:
    runner.run(main())
turns._write()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_long_turn_is_noted(loop: str, tmp_path: Path) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    file = tmp_path / "turns.json"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", PROGRAM, str(file), loop]
    subprocess.run(command, cwd=root, check=True, timeout=120)
    (turn,) = json.loads(file.read_text())["turns"]
    assert turn["cpu_ms"] >= 50
