"""Clauses, names said, and how a query is put."""

from __future__ import annotations

import math
from typing import Any

import pytest

from armory.retrieval.lexical import intents
from armory.retrieval.lexical.intents import MAX_CLAUSES, clauses, form, named


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("deploy and notify the team", ["deploy", "notify the team"]),
        ("What is the weather in Paris?", []),
        ("pros and cons of electric cars", []),
        (
            "Find a hotel in Rome. Then book a flight, and convert 100 dollars to euros",
            ["Find a hotel in Rome", "book a flight", "convert 100 dollars to euros"],
        ),
        ("查询北京的天气。预订一家酒店", ["查询北京的天气", "预订一家酒店"]),
        ("I travel to Oslo next week, what is the weather there", []),
        ("Ask Dr. Hu for his report. Then send it!", ["Ask Dr. Hu for his report", "send it"]),
        (
            "Set the timeout to 500 ms. Restart the web server",
            ["Set the timeout to 500 ms", "Restart the web server"],
        ),
        ("what is the weather in St. Louis tomorrow", []),
        ("search the U.S. news about chips", []),
        ("Wake me at 5 p.m. tell Ann about it", ["Wake me at 5 p.m", "tell Ann about it"]),
        ("the height of Mt. Everest and Ms. Lee's office", []),
        ("Tell the team, e.g. send an email", []),
        (
            "Today 1. list the pods 2. get their logs 3) post them to slack",
            ["list the pods", "get their logs", "post them to slack"],
        ),
        ("(a) clone the repo (b) open a PR", ["(a) clone the repo", "open a PR"]),
        (
            "Step 1: list the pods step 2: get their logs",
            ["Step 1: list the pods", "get their logs"],
        ),
        ("step 2 of the list", []),
        (
            "read the notes and append them, ping ann",
            ["read the notes", "append them", "ping ann"],
        ),
        ("send my cover letter and resume", []),
        ("list the pods & get their logs", ["list the pods", "get their logs"]),
        ("git fetch && create a branch", ["git fetch", "create a branch"]),
        ("track my order with Pack & Send", []),
        (
            "open a PR -> request a review => merge it \u2192 post it to slack",
            ["open a PR", "request a review", "merge it", "post it to slack"],
        ),
        (
            "look up the notes and mail them to the team, click Send",
            ["look up the notes", "mail them to the team", "click Send"],
        ),
        ("by phone, letter and mail", []),
        ("convert USD -> EUR", []),
        ("version 2) of the file (a) and its size", []),
        ("email bob@x.com, alice@y.com, and carol@z.com the report", []),
        ("- book a meeting\n- tell the team", ["book a meeting", "tell the team"]),
        ("", []),
    ],
)
def test_a_query_is_taken_apart_into_clauses(query: str, expected: list[str]) -> None:
    assert [query[slice(*span)] for span in clauses(query)] == expected


def test_clauses_of_a_long_text_are_those_of_the_whole() -> None:
    wish = "find the flights to Berlin, and then book a table for two. "
    lead = "x" * 2_000 + "  "
    for shift in range(0, 700, 7):  # so that each of its gaps is at the border of a piece once
        pad = "y" * shift + ". "
        found = [(lead + pad + wish)[slice(*span)] for span in clauses(lead + pad + wish)]
        assert found[-2:] == ["find the flights to Berlin", "book a table for two"]


@pytest.mark.parametrize("space", [" ", "   ", "\t" * 90, "\u00a0\u00a0 ", " \n ", "\u3000"])
@pytest.mark.parametrize("gap", [".{}Then ", "{}and then ", ",{}", "{}and ", ", and{}"])
def test_white_space_of_any_kind_and_length_parts_clauses(gap: str, space: str) -> None:
    text = f"find flights to Berlin{gap.format(space)}book a table for two{space}"
    found = [text[slice(*span)] for span in clauses(text)]
    assert found == ["find flights to Berlin", "book a table for two"]


def test_no_look_at_a_long_text_goes_far(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    class Watched:
        def scanner(self, text: str, begin: int, end: int) -> object:
            looked.append(end - begin)
            return splitting.scanner(text, begin, end)  # pyright: ignore

    splitting: Any = intents._SPLIT  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(intents, "_SPLIT", Watched())
    clauses("a" + " " * 7_998 + "b")
    assert sum(looked) >= 8_000
    assert max(looked) <= 1_000


def test_clauses_are_bounded() -> None:
    assert len(clauses(". ".join(f"find the thing number{i}" for i in range(40)))) == MAX_CLAUSES


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("find the thing number{}", "012678"),
        ("there was an error in line{}", "012678"),
    ],
)
def test_of_many_clauses_the_first_and_the_last_are_kept(clause: str, expected: str) -> None:
    text = ". ".join(clause.format(i) for i in range(9))
    assert "".join(text[slice(*span)][-1] for span in clauses(text)) == expected


def test_of_many_clauses_those_that_ask_for_something_are_kept() -> None:
    told = [f"the shop was slow on day{i}" for i in range(12)]
    asked = ["please restart the server", "I need to see its log", "create an issue"]
    text = ". ".join([*told[:5], asked[0], asked[1], *told[5:8], asked[2], *told[8:]])
    found = [text[slice(*span)] for span in clauses(text)]
    assert len(found) == MAX_CLAUSES
    assert [clause for clause in found if clause in asked] == asked
    assert found[0] == told[0]
    assert found[-1] == told[-1]


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("write down: meeting at 5", "write down"),
        ("Search: dentist", "Search"),
        ("Jot this down as a note: wifi moose1987", "Jot this down as a note"),
        ("Query our MSSQL: the five customers of 2024", "Query our MSSQL"),
        ("Suzhou: sandals or boots", ""),  # says to what, not what is to be done
        ("Run `status: 500` on the log", ""),
        ("open http://127.0.0.1", ""),
        ("at 10:30 call Ann", ""),
        (f"write {'very ' * 20}long: text", ""),
    ],
)
def test_what_stands_before_a_colon_is_a_clause_where_it_says_what_is_to_be_done(
    text: str, head: str
) -> None:
    assert [text[slice(*span)] for span in clauses(text)] == ([head] if head else [])


def test_names_are_found_only_in_full() -> None:
    names = ["GitHub", "Google Calendar", ""]
    assert named("open an issue with github", names) == {"GitHub"}
    assert named("put it into my google calendar", names) == {"Google Calendar"}
    assert named("search with google", names) == set()


def test_form_tells_requests_from_questions() -> None:
    request = form("Please convert 100 USD to EUR for me")
    question = form("Why do people enjoy sad songs?")
    assert request["form_request"] == 1
    assert question["form_request"] == 0
    assert question["form_wh"] == question["form_why"] == 1
    assert request["form_concrete"] > question["form_concrete"]
    assert question["form_others"] > 0


@pytest.mark.parametrize(
    ("text", "terse"),
    [
        ("resign", 1.0),
        ("lights off", 2 / 3),
        ("put on some jazz", 1 / 3),
        ("say hi in #ops", 1 / 3),  # a wish, though it begins like a greeting
        ("what time is it in Tokyo right now", 0.0),
        ("今天北京的天气怎么样", 1 - math.log(6, 8)),  # ten signs, and the word that they are
        ("Hi there!", 0.0),
        ("ok cool, thanks", 0.0),
        ("have a nice day :)", 0.0),
        ("?!", 0.0),
        ("the", 0.0),
        ("show me that", 0.0),  # nothing is named
    ],
)
def test_form_tells_how_terse_a_wish_is_and_that_a_pleasantry_is_none(
    text: str, terse: float
) -> None:
    assert form(text)["form_terse"] == pytest.approx(terse)


@pytest.mark.parametrize(
    ("text", "mere"),
    [
        ("No worries, thanks!", True),
        ("you\u2019re welcome", True),
        ("wow!!!", True),
        ("thx", True),
        ("never mind", True),
        ("Köszönöm szépen!", True),
        ("DANKE SCHO\u0308N", True),
        ("guten Morgen", True),
        ("¡Muchas gracias!", True),
        ("Merci beaucoup", True),
        ("s'il vous plaît", True),
        ("谢谢。", True),
        ("ありがとうございます。", True),
        ("Спасибо", True),
        ("forget ann", False),
        ("hold the deployment", False),
        ("good morning message to bob", False),
        ("thank ann", False),
        ("danke mail an Peter", False),
        ("gracias a todos por mail", False),
        ("北京现在几点", False),
    ],
)
def test_talk_that_wants_nothing_is_known_in_many_languages(text: str, mere: bool) -> None:
    assert (form(text)["form_terse"] == 0) is mere


@pytest.mark.parametrize("text", ["", "天气", "x" * 5_000])
def test_form_of_anything_is_finite(text: str) -> None:
    assert all(0 <= value < 20 for value in form(text).values())


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("give him a discount", 0.0),
        ("Also, can you invite them?", 0.0),
        ("refund her", 0.0),
        ("find Ann in the list, write her a mail and invite her", 0.0),
        ("tell him that she called", 1.0),
        ("why do people give him gifts?", 1.0),
        ("she gave him a book", 1.0),
    ],
)
def test_whom_an_act_is_done_to_is_not_talked_about(text: str, others: float) -> None:
    assert form(text)["form_others"] == others
