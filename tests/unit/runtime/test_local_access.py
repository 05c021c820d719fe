"""The notes of gateways that run on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from armory.runtime.entry.local_access import FOLDER, LocalAccess, announced, running


def test_a_note_lives_as_long_as_its_gateway_and_is_for_its_user_alone(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:8080/tools", "a-token"):
        (note,) = (tmp_path / FOLDER).iterdir()
        assert note.stat().st_mode & 0o777 == 0o600
        expected = LocalAccess("http://127.0.0.1:8080/tools", "a-token", os.getpid())
        assert running(tmp_path) == [expected]
    assert running(tmp_path) == []
    assert not note.exists()


def test_the_note_of_a_later_gateway_with_the_same_process_id_stays(tmp_path: Path) -> None:
    # two containers on one volume: the old one ends after the new one has come
    old = announced(tmp_path, "http://127.0.0.1:8080", "of-the-old", "tools.example.org")
    old.__enter__()
    with announced(tmp_path, "http://127.0.0.1:8080", "of-the-new", "tools.example.org"):
        old.__exit__(None, None, None)
        new = LocalAccess("http://127.0.0.1:8080", "of-the-new", os.getpid(), "tools.example.org")
        assert running(tmp_path) == [new]
    assert running(tmp_path) == []


def test_notes_of_dead_gateways_and_garbage_are_not_believed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = tmp_path / FOLDER
    folder.mkdir()
    stale = folder / "1-1.json"
    stale.write_text(json.dumps({"url": "http://x:1", "token": "t", "pid": ended.pid}))
    (folder / "2-2.json").write_text("{")
    assert running(tmp_path) == []
    assert not stale.exists()


def test_a_home_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with announced(tmp_path / "file", "http://127.0.0.1:8080", "a-token"):
        pass
