"""What the allocator keeps of large buffers that are free."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from armory.runtime.memory.allocator import LARGE_BYTES, large_apart

ANSWERS, EACH = 20, 15_000_000
PROGRAM = f"""
from armory.runtime.memory.allocator import large_apart

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * {4096}

assert large_apart()
del (bytearray({EACH}))[:]
before, large, small = resident(), [], []
for _ in range({ANSWERS}):
    large.append(bytearray({EACH}))
    small.append(bytearray(100_000))
assert resident() - before > {ANSWERS * EACH}
large.clear()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_large_buffers_go_back_however_small_ones_lie_between() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) < ANSWERS * 100_000 + 2 * LARGE_BYTES


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not large_apart()
