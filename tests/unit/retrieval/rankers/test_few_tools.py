from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from armory.demo.server import build_server
from armory.demo.store import NoteStore
from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.features import NO_MOMENTS, Moments
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.rankers.fusion import FEW, padded, z_scores
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from tests.unit.retrieval.conftest import MakeTool

APART = (0.25, 0.2)


def test_enough_tools_are_measured_by_themselves() -> None:
    values = np.linspace(0, 1, FEW, dtype=np.float32)
    assert padded(Moments(0.4, 0.2), values, FEW, APART) == (0.4, 0.2)


def test_of_two_good_tools_neither_counts_as_bad() -> None:
    values = np.array([0.49, 0.42], np.float32)
    moments = Moments(float(values.mean()), float(values.std()))
    assert z_scores(values, moments)[1] < -0.9
    assert z_scores(values, padded(moments, values, 2, APART))[1] > 1.5


def test_how_many_tools_there_are_counts_and_not_how_many_are_candidates() -> None:
    few = np.array([0.49, 0.42], np.float32)
    many = np.array([0.49, 0.42, 0.2, 0.1], np.float32)
    moments = Moments(0.3, 0.2)
    assert padded(moments, few, 30, APART) == padded(moments, many, 30, APART)
    assert padded(moments, few, 30, APART) != padded(moments, few, 2, APART)


def test_a_single_tool_has_a_spread_to_measure_by() -> None:
    values = np.array([0.6], np.float32)
    assert z_scores(values, padded(Moments(0.6, 0.0), values, 1, APART))[0] > 2


def test_nothing_to_measure_and_nothing_above_zero() -> None:
    none = np.array([], np.float32)
    assert padded(NO_MOMENTS, none, 0, APART) == (0.0, 0.0)
    zeros = np.zeros(3, np.float32)
    assert padded(NO_MOMENTS, zeros, 3, APART) == pytest.approx((0.0, 0.0))


def test_the_least_spread_keeps_weak_tools_weak() -> None:
    values = np.array([0.12, 0.10], np.float32)
    low = padded(Moments(0.11, 0.01), values, 2, APART, (0.1, 0.1))
    assert z_scores(values, low)[0] < 0.5


@pytest.fixture
def demo(tmp_path: Path) -> list[ToolRecord]:
    """The note server that comes along, and two tools about time."""
    listed = [
        ("notes", tool.name, tool.description or "", tool.input_schema)
        for tool in asyncio.run(build_server(NoteStore(tmp_path / "notes.db")).list_tools())
    ]
    listed.append(("time", "get_current_time", "Get current time in a specific timezone", {}))
    listed.append(("time", "convert_time", "Convert time between timezones", {}))
    return [
        ToolRecord(
            name=f"{server}__{name}",
            server=server,
            original_name=name,
            definition={"name": name, "description": description, "inputSchema": schema},
            fingerprint=name,
            description=description,
        )
        for server, name, description, schema in listed
    ]


@pytest.mark.anyio
async def test_over_a_few_tools_a_wish_is_answered_and_a_strangers_is_not(
    demo: list[ToolRecord],
) -> None:
    wishes = {
        "what time is it in Tokyo": "time__get_current_time",
        "9am New York in London time": "time__convert_time",
        "remove note 7": "notes__delete_note",
        "write a note about the meeting": "notes__add_note",
        "jot down: buy milk": "notes__add_note",
        "Hi! search: dentist": "notes__search_notes",
        "hey Claude, move the old plans out of the way": "notes__archive_note",
        "put the shopping list on top": "notes__pin_note",
        "move the old plans out of the way": "notes__archive_note",
        "dump all notes to a file": "notes__export_notes",
        "search: dentist": "notes__search_notes",
    }
    in_vain = (
        "what is the meaning of life", "send an email to Bob", "weather in Paris", "Hi there",
        "translate hello into French", "tell me a joke", "how do I bake bread", "2+2",
        "translate: good morning", "play: bohemian rhapsody", "Hi! Tell me a joke", "ok so 2+2",
    )  # fmt: skip
    async with Retriever(EmbeddedEmbedder(), ExactIndex(), make_rankers()) as retriever:
        await retriever.index(demo)
        for text, wanted in wishes.items():
            found = await retriever.search(Query((text,)))
            assert wanted in [match.tool.name for match in found.matches], text
        for text in in_vain:
            assert not (await retriever.search(Query((text,)))).matches, text


@pytest.mark.anyio
async def test_the_words_of_a_name_are_no_talk(make_tool: MakeTool) -> None:
    """A word that a tool is named by asks for the tool, and one that none is named by does not."""
    described = {
        "fork_repository": "Copy a repository to your own account",
        "create_issue": "Open a new issue in a repository",
        "merge_pull_request": "Merge a pull request",
        "get_file_contents": "Read a file of a repository",
        "list_commits": "History of a branch",
    }
    tools = [make_tool(name, text, "git") for name, text in described.items()]
    async with Retriever(EmbeddedEmbedder(), ExactIndex(), make_rankers()) as retriever:
        await retriever.index(tools)
        found = await retriever.search(Query(("the fork",)))
        assert not found.refused
        assert found.matches[0].tool.original_name == "fork_repository"
        assert (await retriever.search(Query(("thanks",)))).refused


@pytest.mark.anyio
async def test_a_wish_of_a_few_words_is_answered_where_a_joke_is_not(make_tool: MakeTool) -> None:
    described = {
        ("spotify", "play_track"): "Play a track, an album or an artist on the active device",
        ("spotify", "pause_playback"): "Pause the music that is playing",
        ("home", "toggle_entity"): "Turn a light, a switch or another entity on or off",
        ("todo", "add_todo"): "Add an entry to the list of things to do",
        ("calendar", "list_events"): "List the events of a day in the calendar",
    }
    others = ("create", "list", "update", "delete", "export")
    things = ("invoice", "ticket", "employee", "shipment", "pipeline", "cluster", "dataset",
              "campaign", "contract", "sensor", "repository", "certificate")  # fmt: skip
    described |= {
        (thing, f"{verb}_{thing}"): f"{verb.capitalize()} {thing}s of the account"
        for verb in others
        for thing in things
    }
    wishes = {
        "play some jazz": "play_track",
        "lights off": "toggle_entity",
        "what's on today": "list_events",
        "pause it": "pause_playback",
    }
    tools = [make_tool(name, text, server) for (server, name), text in described.items()]
    async with Retriever(EmbeddedEmbedder(), ExactIndex(), make_rankers()) as retriever:
        await retriever.index(tools)
        for text, wanted in wishes.items():
            found = await retriever.search(Query((text,)))
            assert wanted in [match.tool.original_name for match in found.matches], text
        for text in ("tell me a joke", "how do I bake bread", "hi there", "ok cool", "thanks!"):
            assert (await retriever.search(Query((text,)))).refused, text
