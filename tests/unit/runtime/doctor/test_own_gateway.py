"""What of a gateway that runs already, and of its container, is no trouble."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.doctor.machine import folders, port
from armory.runtime.doctor.services import retrieval
from armory.runtime.entry.local_access import Note
from armory.runtime.retrieval import open_retriever


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


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Exception ignored.*vectors/.lock")  # the client leaves it open
async def test_vectors_that_ones_own_gateway_has_open_are_no_fault(tmp_path: Path) -> None:
    rag = {"index": "qdrant", "qdrant": {"path": str(tmp_path / "vectors")}}
    text = json.dumps({"server": {"port": 1}, "tool_rag": rag})
    loaded = load_text(text, environ={"ARMORY_HOME": str(tmp_path)})
    retriever = open_retriever(loaded)
    assert retriever is not None
    try:
        (found,) = await retrieval(loaded)
        assert (found.check, found.state) == ("index", "failed")
        assert "stop the other" in found.fix
        Note(tmp_path, "http://127.0.0.1:1", "a-token").leave()
        (found,) = await retrieval(loaded)
        assert (found.check, found.state) == ("index", "warning")
        assert f"open in a gateway of yours (pid {os.getpid()})" in found.detail
    finally:
        await retriever.aclose()
    assert [one.state for one in await retrieval(loaded)] == ["ok", "ok"]


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
