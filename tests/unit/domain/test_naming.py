"""Exposed names: injective, stable, undoable."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armory.domain.naming import (
    MAX_NAME,
    Patterns,
    expose_names,
    expose_task,
    expose_uri,
    is_server_key,
    slug,
    split_name,
    split_task,
    split_uri,
)

KEYS = st.from_regex(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", fullmatch=True).filter(lambda k: len(k) < 20)


@settings(max_examples=40, deadline=None)
@given(KEYS, st.lists(st.text(min_size=1, max_size=80), max_size=8))
def test_names_are_safe_short_and_distinct(server: str, originals: list[str]) -> None:
    exposed = expose_names(server, originals)
    assert set(exposed) == set(originals)
    for name in exposed.values():
        assert re.fullmatch(r"[A-Za-z0-9_-]+", name)
        assert len(name) <= MAX_NAME
        split = split_name(name)
        assert split is not None
        assert split[0] == server
    assert len(set(exposed.values())) == len(exposed)


@settings(max_examples=40, deadline=None)
@given(KEYS, st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=6), st.randoms())
def test_names_do_not_depend_on_order(server: str, originals: list[str], random: object) -> None:
    mixed = list(originals)
    random.shuffle(mixed)  # pyright: ignore[reportAttributeAccessIssue]
    assert expose_names(server, originals) == expose_names(server, mixed)


def test_plain_names_stay_plain() -> None:
    assert expose_names("git", ["status", "add.file"]) == {
        "status": "git__status",
        "add.file": "git__add_file",
    }


def test_a_new_name_for_what_is_not_there_changes_nothing() -> None:
    assert expose_names("s", ["a"], {"gone": "a"}) == {"a": "s__a"}


def test_a_name_that_is_too_long_ends_in_a_digest_of_it() -> None:
    fits, longer, longest = "a" * 47, "a" * 48, "a" * 49
    exposed = expose_names("s", [fits, longer, longest])
    assert exposed[fits] == f"s__{fits}"
    for name in (longer, longest):
        assert re.fullmatch(r"s__a{40}_[0-9a-f]{6}", exposed[name])
    assert exposed[longer] != exposed[longest]
    assert expose_names("t", [longer])[longer][-6:] != exposed[longer][-6:]


def test_a_collision_changes_only_the_one_that_needed_changing() -> None:
    exposed = expose_names("s", ["a.b", "a_b"])
    assert exposed["a_b"] == "s__a_b"
    assert re.fullmatch(r"s__a_b_[0-9a-f]{6}", exposed["a.b"])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("My Server_2", "my-server-2"),
        ("", "server"),
        ("!!", "server"),
        ("2fa", "s2fa"),
        ("Größe Tools", "grosse-tools"),
        ("GRÖSSE", "grosse"),
        ("Søk på Łódź", "sok-pa-lodz"),
        ("Crème Brûlée", "creme-brulee"),
        ("Cre\u0300me", "creme"),
        ("\uff27\uff49\uff54", "git"),
        ("İzmir \u0131ss\u0131z", "izmir-issiz"),
        ("Tool™ No²", "tool-no"),
        ("погода", "server"),
        ("天气 2", "s2"),
    ],
)
def test_any_text_becomes_a_key_of_a_server(text: str, key: str) -> None:
    assert slug(text) == key
    assert is_server_key(key)


@pytest.mark.parametrize("name", ["plain", "__x", "Up__x", "a__", "a-__x"])
def test_foreign_names_do_not_split(name: str) -> None:
    assert split_name(name) is None


@settings(max_examples=40, deadline=None)
@given(KEYS, st.text(min_size=1, max_size=60))
def test_uris_come_back(server: str, uri: str) -> None:
    assert split_uri(expose_uri(server, uri)) == (server, uri)


@settings(max_examples=40, deadline=None)
@given(KEYS, st.text(max_size=40))
def test_ui_links_come_back(server: str, rest: str) -> None:
    exposed = expose_uri(server, f"ui://{rest}")
    assert exposed == f"ui://{server}/{rest}"
    assert split_uri(exposed) == (server, f"ui://{rest}")


@pytest.mark.parametrize("uri", ["file:///x", "ui://only", "ui://Bad/x", "+x", "git+", "Git+x"])
def test_foreign_uris_do_not_split(uri: str) -> None:
    assert split_uri(uri) is None


@settings(max_examples=40, deadline=None)
@given(KEYS, st.text(min_size=1, max_size=40))
def test_tasks_come_back(server: str, task: str) -> None:
    assert split_task(expose_task(server, task)) == (server, task)


@pytest.mark.parametrize("task", ["x", ":x", "git:", "Git:x"])
def test_foreign_tasks_do_not_split(task: str) -> None:
    assert split_task(task) is None


def test_no_call_into_c_goes_through_all_names() -> None:
    called: set[str] = set()

    def note(_frame: object, event: str, function: Any) -> None:
        if event == "c_call":
            called.add(function.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        expose_names("server", ["a.b", "a.b", "a_b", "c"])
    finally:
        sys.setprofile(before)
    assert "fromkeys" not in called  # all other threads would wait


PATTERNS = st.text("ab_*?[]!-\n", max_size=6)


@given(st.lists(PATTERNS, max_size=5), PATTERNS)
def test_patterns_match_together_what_one_of_them_matches(patterns: list[str], name: str) -> None:
    alone = any(fnmatchcase(name, pattern) for pattern in patterns)
    assert Patterns(patterns).match(name) == alone
