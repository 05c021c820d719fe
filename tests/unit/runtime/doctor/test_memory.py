"""What is left of a container's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.runtime.doctor.machine import _group_mb  # pyright: ignore[reportPrivateUsage]

MIB = 1 << 20
KINDS = {
    "v2": ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    "v1": (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_files_are_no_memory_that_is_missing(tmp_path: Path, kind: str) -> None:
    limit, used, stat, pages = KINDS[kind]
    (tmp_path / "memory").mkdir()
    (tmp_path / limit).write_text(f"{1024 * MIB}\n")
    (tmp_path / used).write_text(f"{1020 * MIB}\n")
    (tmp_path / stat).write_text(f"anon 1\ninactive_anon 7\n{pages} {700 * MIB}\nslab 3\n")
    assert _group_mb(tmp_path) == 704


def test_a_group_without_a_limit_says_nothing(tmp_path: Path) -> None:
    assert _group_mb(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    assert _group_mb(tmp_path) is None
