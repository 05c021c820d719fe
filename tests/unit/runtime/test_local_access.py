"""The notes of gateways that run on this machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from armory.runtime.entry.local_access import FOLDER, LocalAccess, Note, ending, running


def test_a_note_lives_as_long_as_its_gateway_and_is_for_its_user_alone(tmp_path: Path) -> None:
    note = Note(tmp_path, "http://127.0.0.1:8080/tools", "a-token")
    note.leave()
    (file,) = (tmp_path / FOLDER).glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    expected = LocalAccess("http://127.0.0.1:8080/tools", "a-token", os.getpid())
    assert running(tmp_path) == [expected]
    note.remove()
    assert running(tmp_path) == []
    assert not file.exists()


def test_a_gateway_that_ends_is_told_apart_until_it_has(tmp_path: Path) -> None:
    note = Note(tmp_path, "http://127.0.0.1:8080", "a-token")
    note.leave()
    assert (len(running(tmp_path)), ending(tmp_path)) == (1, [])
    note.end()
    assert running(tmp_path) == []
    assert [one.pid for one in ending(tmp_path)] == [os.getpid()]
    note.remove()
    note.end()
    assert (running(tmp_path), ending(tmp_path)) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="macOS ends what writes too large a file")
def test_a_note_for_which_there_was_no_room_comes_later(tmp_path: Path) -> None:
    note = Note(tmp_path, "http://127.0.0.1:8080", "a-token")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        note.leave()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    # nor is there an empty one, which nobody would take away
    assert [*(tmp_path / FOLDER).glob("*.json")] == []
    note.leave_again()
    assert len(running(tmp_path)) == 1
    note.remove()
    note.leave_again()  # by who looks while the gateway ends
    assert running(tmp_path) == []


def test_the_note_of_a_later_gateway_with_the_same_process_id_stays(tmp_path: Path) -> None:
    # two containers on one volume: the old one ends after the new one has come
    old = Note(tmp_path, "http://127.0.0.1:8080", "of-the-old", "tools.example.org")
    new = Note(tmp_path, "http://127.0.0.1:8080", "of-the-new", "tools.example.org")
    old.leave()
    new.leave()
    old.leave_again()
    old.remove()
    expected = ("http://127.0.0.1:8080", "of-the-new", os.getpid(), "tools.example.org")
    assert running(tmp_path) == [LocalAccess(*expected)]
    new.remove()
    assert running(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from armory.runtime.entry.local_access import Note
Note(Path(sys.argv[1]), "http://127.0.0.1:8080", "a-token").leave()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_note_of_a_killed_gateway_whose_process_id_is_another_s_by_now(tmp_path: Path) -> None:
    # as after a power cut; a file is locked for it, the lock ends with the process
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False, timeout=60)
    note, lock = sorted((tmp_path / FOLDER).iterdir(), key=lambda path: path.suffix != ".json")
    pid = str(os.getpid())
    before = json.loads(note.read_text())["pid"]
    note.write_text(note.read_text().replace(str(before), pid))
    lock.rename(lock.with_name(lock.name.replace(str(before), pid)))
    assert running(tmp_path) == []
    assert [*(tmp_path / FOLDER).iterdir()] == []


def test_what_a_killed_gateway_has_left_goes_when_another_takes_its_note(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False, timeout=60)
    (lock,) = folder.glob("*.lock")
    note = Note(tmp_path, "http://127.0.0.1:8080", "another")
    note.leave()
    assert not lock.exists()
    assert len([*folder.glob("*.lock")]) == 1
    assert [one.token for one in running(tmp_path)] == ["another"]
    note.remove()
    assert [*folder.iterdir()] == []


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
    note = Note(tmp_path / "file", "http://127.0.0.1:8080", "a-token")
    note.leave()
    note.leave_again()
    note.remove()
