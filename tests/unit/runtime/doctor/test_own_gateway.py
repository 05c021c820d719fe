"""What of a gateway that runs already, and of its container, is no trouble."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.doctor.machine import folders, port
from armory.runtime.entry.local_access import Note


@pytest.mark.parametrize("path", ["", "/tools"])
def test_the_port_of_ones_own_gateway_is_told_as_such(tmp_path: Path, path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        text = f"server: {{port: {number}, base_path: '{path}'}}\n"
        loaded = load_text(text, environ={"ARMORY_HOME": str(tmp_path)})
        assert port(loaded).state == "failed"
        Note(tmp_path, f"http://127.0.0.1:{number}{path}", "a-token").leave()
        found = port(loaded)
    assert found.state == "ok"
    assert "a gateway of yours runs there" in found.detail


@pytest.mark.parametrize(("left_mb", "state"), [(0, "failed"), (100, "warning"), (200, "ok")])
def test_a_disk_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_mb: int, state: str
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=left_mb << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)  # pyright: ignore
    found = [*folders(load_text("{}", environ={"ARMORY_HOME": str(tmp_path)}))]
    assert [one.check for one in found] == ["folder ARMORY_HOME", "folder storage.cache_dir"]
    assert {one.state for one in found} == {state}
    for one in found if state != "ok" else ():
        assert f"has {left_mb} MB left" in one.detail
        assert "make room there" in one.fix


def test_a_home_folder_that_is_a_volume_is_no_person_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tmp_path.chmod(0o777)
    loaded = load_text("{}", environ={"ARMORY_HOME": str(tmp_path)})
    assert next(iter(folders(loaded))).state == "warning"
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)  # the folder is somebody else's then
    assert next(iter(folders(loaded))).state == "ok"
