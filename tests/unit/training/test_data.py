"""What the models are trained on: texts, parts of queries, and what is held out of the training."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import data
from training.relevance import sets

TOOL = data.Tool(
    "files__readFile",
    "readFile",
    "Reads a file from the disk. Fails where there is none, and says why.",
    "files",
    (("filePath", "Where it is."), ("maxBytes", "")),
)


@pytest.mark.parametrize(
    ("name", "words"),
    [("getHTTPStatus_v2", "get http status v2"), ("a.b-c/d:e|f#g", "a b c d e f g"), ("", "")],
)
def test_names_are_read_as_words(name: str, words: str) -> None:
    assert data.split_name(name) == words


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("plain", "read file: Reads a file from the disk."),
        ("description", "Reads a file from the disk."),
        ("server", "files read file: Reads a file from the disk."),
        ("names", "read file: Reads a file from the disk."),
        ("params", "files read file: Reads a file from the disk."),
    ],
)
def test_each_view_of_a_tool_begins_with_what_it_is_called_after(kind: str, text: str) -> None:
    assert data.view(TOOL, kind).startswith(text)
    assert data.view(data.Tool("x", "readFile", ""), kind).strip(": ") == "read file"


def test_views_name_the_parameters() -> None:
    assert data.view(TOOL, "names").endswith("(file path, max bytes)")
    assert data.view(TOOL, "params").endswith(" Parameters: file path (Where it is.); max bytes")


words = st.text("abcDE .!?,", min_size=1).filter(lambda text: text.strip(" .!?") != "")


@given(words, words, st.integers(0, 99))
def test_the_halves_of_a_joined_query_are_where_it_says(first: str, second: str, seed: int) -> None:
    text, halves = data.join(first, second, random.Random(seed))
    said = [text[start:end] for start, end in halves]
    assert said[0] == first.rstrip(" .!?")
    assert said[1].lower() == second.lower()


def test_only_clauses_that_can_stand_alone_are_taken() -> None:
    text = "Read the file of notes, and then send it to my colleague. Thanks."
    assert data.clauses(text) == ["Read the file of notes", "send it to my colleague"]


@pytest.mark.parametrize(
    ("sentence", "request_"),
    [
        ("Retrieves a list of news.", "retrieve a list of news"),
        ("This tool can be used to fetch pages.", "fetch pages"),
        ("Searches the web", "search the web"),
        ("Queries a table", "query a table"),
        ("Access the store", "access the store"),
    ],
)
def test_a_description_becomes_a_request(sentence: str, request_: str) -> None:
    assert data.imperative(sentence) == request_


def test_template_queries_are_the_same_each_time_and_need_a_description() -> None:
    made = [data.synthetic(TOOL, random.Random(seed)) for seed in range(30)]
    assert made == [data.synthetic(TOOL, random.Random(seed)) for seed in range(30)]
    assert None not in made
    assert len(set(made)) > 10
    assert data.synthetic(data.Tool("x", "x", "Too short."), random.Random(1)) is None


def test_a_set_is_read_from_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "toole"
    folder.mkdir()
    schema = {"properties": {"filePath": {"description": "Where\n it is."}, "odd": 3}}
    tool = {"id": "a", "name": "readFile", "server": "myFiles", "inputSchema": schema}
    query = {"id": "q", "query": "read it", "relevant": ["a"], "steps": "1. open\n2) read\n"}
    (folder / "tools.jsonl").write_text(json.dumps(tool) + "\n\n")
    assert data.load(tmp_path, "toole").queries == []
    (folder / "queries.jsonl").write_text(json.dumps(query))
    found = data.load(tmp_path, "toole")
    params = (("filePath", "Where it is."), ("odd", ""))
    assert found.tools == [data.Tool("a", "readFile", "", "my files", params)]
    assert found.queries == [data.Query("q", "read it", ("a",), ("open", "read"))]


def test_judgement_and_training_hold_out_the_same_queries() -> None:
    ids = [f"q{number}" for number in range(2_000)]
    held = [data.is_validation(one) for one in ids]
    assert held == [sets.is_validation(one) for one in ids]
    assert 0.15 < sum(held) / len(held) < 0.21
    assert {name: fold for fold, names in data.FOLDS.items() for name in names} == sets.FOLD_OF
    assert set(sets.FOLD_OF) == set(sets.SETS)


def test_written_queries_are_held_out_by_their_server() -> None:
    servers = [f"server {number}" for number in range(50)]
    held = next(server for server in servers if data.is_held_server(server))
    other = next(server for server in servers if not data.is_held_server(server))
    tools = [data.Tool("a", "a", "", held), data.Tool("b", "b", "", other)]
    queries = [data.Query(str(i), "q", wanted) for i, wanted in enumerate((("a",), ("b",)))]
    assert data.held_out(data.Catalog(data.WRITTEN, tools, queries)) == [True, False]
    by_query = data.held_out(data.Catalog("toole", tools, queries))
    assert by_query == [data.is_validation(query.id) for query in queries]


def test_every_written_query_wants_a_tool_once() -> None:
    written = data.written_queries()
    assert len(written) > 100
    assert all(query.text.strip() and query.relevant for query in written)
    assert len({query.text for query in written}) == len(written)
