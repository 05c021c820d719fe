"""What is found to lead back to the gateway that lists it."""

from __future__ import annotations

import pytest

from armory.upstreams.session.lists.loops import returning


def back(server: str, *names: str) -> list[str]:
    return list(returning(server, [{"name": name} for name in names], "name", "__"))


def test_the_gateway_itself_as_an_upstream() -> None:
    own = ("notes__add", "time__now", "search_tools")
    assert back("me", *own) == []
    assert back("me", *own, *(f"me__{name}" for name in own)) == [f"me__{name}" for name in own]


def test_another_gateway_with_this_one_behind_it() -> None:
    listed = ("time__now", "here__notes__add", "here__there__time__now")
    assert back("there", *listed) == ["here__there__time__now"]


def test_what_was_cut_is_found_by_its_second_prefix() -> None:
    cut = "here__there__time__convert_a_time_from_0a1b2c"
    assert back("there", "time__now", cut, f"here__there__{cut[:20]}") == [
        f"here__there__{cut[:20]}"
    ]


@pytest.mark.parametrize(
    "names",
    [
        ("query", "db_query", "mydb__query", "db__other"),  # a prefix of something else
        ("github__list", "gitlab__list"),  # another gateway behind this one
        ("db__", "other"),
    ],
)
def test_entries_of_its_own_stay(names: tuple[str, ...]) -> None:
    assert back("db", *names) == []


def test_resources_have_a_joint_of_their_own() -> None:
    uris = ("notes+notes://index", "me+notes+notes://index", "me+file:///other")
    entries = [{"uri": uri} for uri in uris]
    assert list(returning("me", entries, "uri", "+")) == ["me+notes+notes://index"]
