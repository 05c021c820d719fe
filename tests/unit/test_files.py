"""Files that take another's place, or do not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from armory.files import replacing


def test_a_file_is_there_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"before")
    with replacing(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_what_takes_the_place_is_on_the_disk_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "kept", list[tuple[int, bytes]]()
    path.write_bytes(b"before")

    def fsync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(path) as file:
        file.write(b"after")
    assert synced == [(5, b"before")]


def fill(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"aft")
        raise OSError(errno.ENOSPC, "the disk is full")


def test_a_disk_that_is_full_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"before")
    with pytest.raises(OSError, match="full") as failed:
        fill(path)
    assert failed.value.filename == str(path), "a message says which"
    assert path.read_bytes() == b"before"
    assert [*tmp_path.iterdir()] == [path]
