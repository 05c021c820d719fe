"""What the allocator keeps of large buffers that are free."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from armory.runtime.memory.allocator import LARGE_BYTES, free_bytes, return_large_buffers

ANSWERS, EACH = 20, 15_000_000
PROGRAM = f"""
from armory.runtime.memory.allocator import return_large_buffers

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * {4096}

assert return_large_buffers()
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


ANSWERED = """
import resource
from armory.runtime.memory.allocator import return_large_buffers

assert return_large_buffers()

def answer():
    copies = [b"x" * (1_200_000 + number) for number in range(5)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    answer()
before = faults()
for _ in range(10):
    answer()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_one_large_answer_after_another_uses_the_same_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANSWERED], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) < 100, "each takes 1,500 pages"


FREED = """
import asyncio
from armory.runtime.memory import allocator

async def main():
    allocator.LOOK_S = 0.01
    keeping = asyncio.ensure_future(allocator.return_free_memory())
    await asyncio.sleep(0)
    held = [bytes(3_000) for _ in range(40_000)]
    most = allocator.resident_bytes()
    held = held[::50]
    assert allocator.free_bytes() > 100_000_000
    assert allocator.resident_bytes() > most - 20_000_000, "it goes back by itself"
    async with asyncio.timeout(20):
        while allocator.resident_bytes() > most - 60_000_000:
            await asyncio.sleep(0.01)
    keeping.cancel()

asyncio.run(main())
"""


CROWD = """
import asyncio
from armory.runtime.memory import allocator

async def main():
    allocator.LOOK_S = 0.01
    given, give_back = [], allocator.give_back
    allocator.give_back = lambda: given.append(give_back())
    keeping = asyncio.ensure_future(allocator.return_free_memory())
    await asyncio.sleep(0)
    held = [bytes(3_000) for _ in range(40_000)]
    held = held[::4]
    async with asyncio.timeout(20):
        while not given:
            await asyncio.sleep(0.01)
        crowd = [bytes(3_000) for _ in range(18_000)]
        while len(given) < 2:
            await asyncio.sleep(0.01)
    most = allocator.resident_bytes()
    crowd = crowd[::50]
    async with asyncio.timeout(20):
        while allocator.resident_bytes() > most - 20_000_000:
            await asyncio.sleep(0.01)
    keeping.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_what_is_freed_once_a_crowd_has_gone_goes_back() -> None:
    subprocess.run([sys.executable, "-c", CROWD], timeout=90, check=True)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_what_is_free_between_what_is_in_use_goes_back() -> None:
    subprocess.run([sys.executable, "-c", FREED], timeout=60, check=True)


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not return_large_buffers()
    assert not free_bytes()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_what_the_allocator_holds_is_given_back() -> None:
    program = """
from armory.runtime.memory import allocator
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6
held = [bytearray(1_000) for _ in range(200_000)]
last = held.pop()
full = resident()
held.clear()
allocator.give_back()
print(full - resident())
"""
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )
    assert float(said.stdout) > 150
