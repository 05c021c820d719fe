"""What fills memory goes into huge pages, where the system has them and does not forbid them."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from armory.runtime.memory import huge_pages
from armory.runtime.memory.huge_pages import anonymous, share_present, use_huge_pages

FILLED_MB = 64
PROGRAM = f"""
from armory.runtime.memory.huge_pages import use_huge_pages

kept = [bytes(200) for _ in range({FILLED_MB} * 4_000)]
print(use_huge_pages())
with open("/proc/self/smaps_rollup") as file:
    print(sum(int(line.split()[1]) for line in file if line.startswith("AnonHugePages")))
"""
RANGES = """\
00400000-00401000 r--p 00000000 fe:00 12345 /usr/bin/python3.11
00600000-00a00000 rw-p 00200000 fe:00 12345 /usr/bin/python3.11
01c00000-02400000 rw-p 00000000 00:00 0     [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000400000-7f0000800000 ---p 00000000 00:00 0
7f0000800000-7f0000c00000 rw-s 00000000 00:01 77 /dev/shm/x (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
"""


def has_them() -> bool:
    """Whether the system does what is asked of it: Linux 6.1 and later, if not told otherwise."""
    if sys.platform != "linux":
        return False
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return (major, minor) >= (6, 1) and setting.exists() and "[never]" not in setting.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_what_is_filled_goes_into_huge_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    pages, kilobytes = (int(line) for line in done.stdout.split())
    assert (pages > 0) == (kilobytes > 0) == has_them()


def test_only_memory_of_the_process_itself_counts() -> None:
    found = list(anonymous(RANGES.splitlines(keepends=True)))
    assert found == [(0x1C00000, 0x2400000), (0x7F0000000000, 0x7F0000400000)]


def test_pages_in_memory_are_told_by_the_last_bit_of_their_entries() -> None:
    there, away = b"\xff" * 7 + b"\x81", b"\xff" * 7 + b"\x01"
    assert share_present(there * 3 + away) == 0.75
    assert share_present(b"") == 0.0


def test_where_they_are_forbidden_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    (tmp_path / "hpage_pmd_size").write_text("2097152\n")
    monkeypatch.setattr(huge_pages, "_SETTINGS", tmp_path)
    assert use_huge_pages() == 0
    monkeypatch.setattr(huge_pages, "_SETTINGS", tmp_path / "none")
    assert use_huge_pages() == 0


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert use_huge_pages() == 0
