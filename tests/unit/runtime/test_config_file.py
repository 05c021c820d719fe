"""The configuration file on disk: replaced in one step, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from armory.runtime.editing import file as on_disk
from armory.runtime.editing.file import replace, version_of, why_read_only
from armory.web.rest.live.config_file import NotWritable, Stale

KEY = b"a key of tags"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "armory.yaml"
    found.write_text("a: 1\n")
    found.chmod(0o640)
    return found


def test_it_is_replaced_with_its_permissions(path: Path) -> None:
    before = version_of(path, KEY)
    written = replace(path, "b: ü\n", before.tag, KEY)
    assert path.read_text() == written.text == "b: ü\n"
    assert written.tag == version_of(path, KEY).tag != before.tag
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["armory.yaml"]


def test_a_link_stays_one(path: Path) -> None:
    link = path.parent / "link.yaml"
    link.symlink_to(path.name)
    replace(link, "b: 2\n", version_of(link, KEY).tag, KEY)
    assert link.is_symlink()
    assert path.read_text() == "b: 2\n"


def test_another_version_is_not_overwritten(path: Path) -> None:
    tag = version_of(path, KEY).tag
    path.write_text("a: 2\n")
    with pytest.raises(Stale):
        replace(path, "b: 1\n", tag, KEY)
    assert path.read_text() == "a: 2\n"
    assert os.listdir(path.parent) == ["armory.yaml"]


def test_a_read_only_file_stays(path: Path) -> None:
    tag = version_of(path, KEY).tag
    path.chmod(0o440)
    assert "read-only" in (why_read_only(path) or "")
    with pytest.raises(NotWritable, match="read-only"):
        replace(path, "b: 1\n", tag, KEY)
    assert path.read_text() == "a: 1\n"


def test_a_file_that_cannot_be_put_in_place_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a single file does that is mounted into a container."""

    def busy(source: object, target: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(on_disk.os, "replace", busy)
    with pytest.raises(NotWritable, match="busy"):
        replace(path, "b: 1\n", version_of(path, KEY).tag, KEY)
    assert path.read_text() == "a: 1\n"
    assert os.listdir(path.parent) == ["armory.yaml"]
