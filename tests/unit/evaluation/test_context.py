"""The context report counts what really goes into a prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from armory.domain.query import Query
from armory.domain.results import KnownExplanation, Match, Selection
from armory.domain.tool import ToolRecord
from armory.errors import InvalidRequest
from armory.evaluation.context import Surfaces, compact, definition_of, measure
from armory.evaluation.first_token import first_tokens
from armory.evaluation.plot import svg
from armory.gateway.metatools.answers import found_structure
from armory.gateway.metatools.definitions import call_definition, search_definition
from armory.gateway.results.toon import encode_value
from armory.llm.client import ChatClient
from armory.llm.tokens import estimate_tokens
from armory.testing.chat import ScriptedChat, Turn

pytestmark = pytest.mark.anyio


def found(selection: Selection) -> dict[str, Any]:
    return found_structure(selection, lambda: ([], 0), lambda _tool: {})


WITHOUT_CALL = search_definition({}, call_tool=False)
SURFACES = Surfaces(
    meta_tools=[search_definition({}, call_tool=True), call_definition()],
    meta_tools_whole=[WITHOUT_CALL],
    answer=found,
    toon=encode_value,
)


def tool(number: int) -> ToolRecord:
    properties = {f"field_{i}": {"type": "string", "description": "a field"} for i in range(6)}
    definition = {
        "name": f"t{number}",
        "description": f"Does thing {number} " * 5,
        "inputSchema": {"type": "object", "properties": properties},
    }
    text = str(definition["description"])
    return ToolRecord(f"s__t{number}", "s", f"t{number}", definition, "f", text)


TOOLS = [tool(number) for number in range(40)]


async def search(query: Query) -> Selection:
    """As many tools as the query's number says."""
    found = TOOLS[: int(query.texts[0])]
    matches = tuple(Match(t, 0.9, 0.8, 0.7, KnownExplanation(reason="it fits")) for t in found)
    return Selection(matches, visible=len(TOOLS), threshold=0.5)


async def test_each_way_counts_everything_that_it_puts_in() -> None:
    report = await measure(TOOLS, ["2", "0"], search, SURFACES)
    shown = [definition_of(t) for t in TOOLS]
    assert report.full == estimate_tokens(compact(shown))
    two, none = report.queries
    assert two.searched is not None
    assert two.searched_toon is not None
    assert none.searched is not None
    meta = SURFACES.meta_tools
    assert two.filtered == estimate_tokens(compact([*shown[:2], *meta]))
    assert none.filtered == estimate_tokens(compact(meta))
    # A round trip carries both meta-tools, the call and the answer, even when nothing is found.
    assert none.searched > report.meta_tools
    answer = estimate_tokens(compact(found(await search(Query(("2",))))))
    call = estimate_tokens(compact({"name": "search_tools", "arguments": {"query": "2"}}))
    assert two.searched == report.meta_tools + call + answer + 2 * 8  # of a call and its result
    assert two.searched_toon <= two.searched
    assert two.filtered_toon <= two.filtered
    assert (two.returned, none.returned) == (2, 0)
    # A list that leaves nothing out has no need of `call_tool`.
    (whole,) = (await measure(TOOLS, ["40"], search, SURFACES)).queries
    assert whole.filtered == estimate_tokens(compact([*shown, WITHOUT_CALL]))
    assert report.by_server == {"s": sum(estimate_tokens(compact(d)) for d in shown)}


async def test_pinned_tools_are_in_every_list() -> None:
    surfaces = replace(SURFACES, pinned=frozenset({"s__t0", "s__t39"}))
    report = await measure(TOOLS, ["1"], search, surfaces)
    shown = [definition_of(t) for t in TOOLS]
    (cost,) = report.queries
    listed = [shown[0], shown[39], *SURFACES.meta_tools]
    assert (cost.returned, cost.filtered) == (1, estimate_tokens(compact(listed)))
    assert report.pinned == estimate_tokens(compact([shown[0], shown[39]]))
    plain = (await measure(TOOLS, ["1"], search, SURFACES)).queries[0].searched
    assert cost.searched is not None
    assert plain is not None
    assert cost.searched - plain == pytest.approx(report.pinned, abs=5)


async def test_without_meta_tools_and_with_every_tool_pinned_nothing_is_saved() -> None:
    surfaces = Surfaces([], [], None, encode_value, frozenset(t.name for t in TOOLS))
    report = await measure(TOOLS, ["1", "2"], search, surfaces)
    assert report.saved("filtered") == 0
    assert report.meta_tools == 0
    told = report.to_json()
    assert told["tokens"]["searched"] is None, "there is nothing to search with"
    assert "search_tools" not in svg(report)


async def test_the_saving_is_the_mean_over_queries_and_can_be_negative() -> None:
    report = await measure(TOOLS, ["1", "2", "12"], search, SURFACES)
    mean = sum(cost.filtered for cost in report.queries) / 3
    assert report.saved("filtered") == pytest.approx(1 - mean / report.full)
    assert 0.7 < report.saved("filtered") < 1
    tiny = await measure(TOOLS[:1], ["1"], search, SURFACES)
    assert tiny.saved("searched") < 0


async def test_definitions_carry_the_exposed_name() -> None:
    assert definition_of(TOOLS[0])["name"] == "s__t0"


async def test_the_report_is_json_and_a_picture() -> None:
    report = await measure(TOOLS, ["2", "5"], search, SURFACES)
    told = json.loads(json.dumps(report.to_json()))
    assert told["tools"] == 40
    assert told["returned_mean"] == 3.5
    assert told["tokens"]["filtered"]["saved_share"] == round(report.saved("filtered"), 4)
    root = ElementTree.fromstring(svg(report, title="a < b & c"))
    texts = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a < b & c" in texts
    assert f"{report.full:,}" in texts


@pytest.mark.parametrize(("tools", "queries"), [([], ["1"]), (TOOLS, [])])
async def test_nothing_to_count_is_refused(
    tools: Sequence[ToolRecord], queries: Sequence[str]
) -> None:
    with pytest.raises(InvalidRequest, match="needs tools and queries"):
        await measure(tools, queries, search, SURFACES)


async def test_times_to_the_first_token_are_measured_with_both_prompts() -> None:
    async with ScriptedChat(["hello there"]) as server, ChatClient(server.url, "small") as chat:
        times = await first_tokens(chat, "small", TOOLS, ["1", "2"], search)
    assert len(times.full) == len(times.selected) == 2
    assert times.full[0].prompt_tokens > 10 * times.selected[0].prompt_tokens
    prompts = [request["messages"][0]["content"] for request in server.requests]
    assert all("s__t39" in prompt for prompt in prompts[::2])
    assert not any("s__t39" in prompt for prompt in prompts[1::2])


async def test_an_endpoint_that_fails_ends_the_measuring_with_what_there_is() -> None:
    turns = ["ok", "ok", Turn(status=500)]
    async with (
        ScriptedChat(turns) as server,
        ChatClient(server.url, "small", max_retries=0) as chat,
    ):
        times = await first_tokens(chat, "small", TOOLS, ["1", "2"], search)
    assert len(times.full) == 1
    assert "HTTP 500" in times.problem
