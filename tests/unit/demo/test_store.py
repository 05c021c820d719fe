from __future__ import annotations

from pathlib import Path

import pytest

from armory.demo.store import NoteError, NoteStore


@pytest.fixture
def store(tmp_path: Path) -> NoteStore:
    return NoteStore(tmp_path / "deep" / "notes.db")


def test_notes_survive_the_process(store: NoteStore, tmp_path: Path) -> None:
    note = store.add("  Shopping \n list ", "milk", ["home"])
    again = NoteStore(tmp_path / "deep" / "notes.db").get(note.id)
    assert (again.title, again.body, again.tags) == ("Shopping list", "milk", ("home",))


def test_finding_by_words_tags_and_archive(store: NoteStore) -> None:
    first = store.add("One", "100% sure", ["x"])
    second = store.add("Two", "not_sure", [])
    assert [n.id for n in store.find("sure one")] == [first.id]
    assert [n.id for n in store.find("0%")] == [first.id]
    assert [n.id for n in store.find("not_sure")] == [second.id]
    assert [n.id for n in store.find(tag="X")] == [first.id]
    store.change(first.id, archived=True)
    assert [n.id for n in store.find("sure")] == [second.id]
    assert store.get(first.id).archived
    store.change(second.id, pinned=True)
    third = store.add("Three", "", [])
    assert [n.id for n in store.find()] == [second.id, third.id]


def test_changing_tagging_and_deleting(store: NoteStore) -> None:
    note = store.add("One", "a", ["x", "y"])
    assert store.append(note.id, "b").body == "a\n\nb"
    assert store.tag(note.id, add=["z"], remove=["x"]).tags == ("y", "z")
    assert store.tags() == {"y": 1, "z": 1}
    assert store.change(note.id, title="New").title == "New"
    store.delete(note.id)
    assert store.tags() == {}
    with pytest.raises(NoteError, match=f"no note {note.id}"):
        store.get(note.id)


@pytest.mark.parametrize("title", ["", "  ", "x" * 201])
def test_titles_are_checked(store: NoteStore, title: str) -> None:
    with pytest.raises(NoteError, match="1 to 200 characters"):
        store.add(title, "", [])


def test_tags_are_checked_and_nothing_is_half_written(store: NoteStore) -> None:
    with pytest.raises(NoteError, match="no tag"):
        store.add("One", "", ["fine", "not fine"])
    assert store.find() == []
