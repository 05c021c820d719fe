"""What is mapped of files leaves the memory of a process, and comes back as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

from armory.runtime.memory.file_pages import let_go, unwritten

SMAPS = """\
00400000-00401000 r--p 00000000 fe:00 12345                      /usr/lib/a library.so
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
00401000-00501000 r-xp 00001000 fe:00 12345                      /usr/lib/a library.so
Anonymous:             0 kB
00501000-00502000 r--p 00101000 fe:00 12345                      /usr/lib/a library.so
Anonymous:             4 kB
00502000-00503000 rw-p 00102000 fe:00 12345                      /usr/lib/a library.so
Anonymous:             0 kB
00503000-00504000 r--p 00000000 00:00 0
Anonymous:             0 kB
00504000-00505000 r--s 00000000 00:01 77                         /dev/shm/x (deleted)
Anonymous:             0 kB
"""
SIZE = 16 << 20
READ = f"""
import mmap, sys
from armory.runtime.memory.file_pages import file_bytes, let_go

with open(sys.argv[1], "r+b") as file:
    kept = mmap.mmap(file.fileno(), {SIZE}, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    read = bytes(kept)
    before = file_bytes()
    assert let_go() > {SIZE} // 2
    assert before - file_bytes() > {SIZE} // 2
    assert bytes(kept) == read
"""
WRITTEN = f"""
import ctypes, mmap, sys
from armory.runtime.memory.file_pages import let_go

with open(sys.argv[1], "r+b") as file:
    kept = mmap.mmap(file.fileno(), {SIZE}, flags=mmap.MAP_PRIVATE)
    kept[5:9] = b"mine"
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    place = ctypes.addressof(ctypes.c_char.from_buffer(kept))
    assert libc.mprotect(place, {SIZE}, mmap.PROT_READ) == 0
    let_go()
    assert kept[5:9] == b"mine"
"""
LATER = f"""
import asyncio, mmap, sys, time
from armory.runtime.memory import allocator
from armory.runtime.memory.file_pages import file_bytes

class Clock:  # how busy the machine keeps this process is chance
    busy, looks = True, 0
    monotonic = staticmethod(time.monotonic)

    def process_time(self):
        self.looks += 1
        return time.monotonic() if self.busy else 0.0

async def main():
    allocator.LOOK_S, allocator.time = 0.01, Clock()
    keeping = asyncio.ensure_future(allocator.return_free_memory())
    with open(sys.argv[1], "r+b") as file:
        kept = mmap.mmap(file.fileno(), {SIZE}, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    bytes(kept)
    most = file_bytes()
    async with asyncio.timeout(20):
        while allocator.time.looks < 20:  # busy: what it uses stays
            await asyncio.sleep(0.01)
        assert file_bytes() > most - {SIZE} // 2
        allocator.time.busy = False
        while file_bytes() > most - {SIZE} // 2:
            await asyncio.sleep(0.01)
    keeping.cancel()

asyncio.run(main())
"""


def test_only_what_nobody_can_have_written_to_counts() -> None:
    found = list(unwritten(SMAPS.splitlines(keepends=True)))
    assert found == [(0x400000, 0x401000), (0x401000, 0x501000)]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
@pytest.mark.parametrize("program", [READ, WRITTEN, LATER], ids=["read", "written", "later"])
def test_a_file_leaves_memory_and_comes_back_as_it_was(
    program: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("mapped") / "file"
    file.write_bytes(bytes(range(256)) * (SIZE // 256))
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert let_go() == 0
