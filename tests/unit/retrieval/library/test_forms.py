"""Tools as other libraries have them, added to a ToolMemory as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp.types
import pytest
from pydantic import BaseModel, Field

from armory import Tool, ToolMemory
from armory.errors import InvalidRequest

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: dict[str, Any] = {"name": "get_weather", "description": "Weather of a city"}


@pytest.mark.parametrize(
    "given",
    [
        {"type": "function", "function": {**WEATHER, "parameters": SCHEMA, "strict": True}},
        {"type": "function", **WEATHER, "parameters": SCHEMA, "strict": True},
        {**WEATHER, "input_schema": SCHEMA},
        {"type": "custom", **WEATHER, "input_schema": SCHEMA, "cache_control": {"type": "x"}},
        {**WEATHER, "input_schema": SCHEMA, "eager_input_streaming": True},
        {"type": "function", **WEATHER, "parameters": SCHEMA, "strict": None, "async": True},
        {**WEATHER, "inputSchema": SCHEMA},
        ("get_weather", {"type": "function", "function": {**WEATHER, "parameters": SCHEMA}}),
        mcp.types.Tool(name="get_weather", description="Weather of a city", input_schema=SCHEMA),
    ],
    ids=["chat", "responses", "messages", "custom", "streamed", "async", "mcp", "pair", "mcp-sdk"],
)
def test_every_form_is_the_same_tool(given: Any) -> None:
    tool = Tool.of(given)
    assert (tool.identifier, tool.name) == ("get_weather", "get_weather")
    assert (tool.description, tool.input_schema) == ("Weather of a city", SCHEMA)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "custom", **WEATHER, "format": {"type": "text"}},
        {"type": "custom", "custom": {**WEATHER, "format": {"type": "text"}}},
    ],
    ids=["responses", "chat"],
)
def test_a_tool_of_openai_s_that_takes_plain_text_is_one_without_arguments(given: Any) -> None:
    assert Tool.of(given) == Tool("get_weather", "get_weather", "Weather of a city")


def test_what_openai_says_of_results_is_the_output_schema() -> None:
    given = {"type": "function", **WEATHER, "parameters": None, "output_schema": SCHEMA}
    assert Tool.of(given).output_schema == SCHEMA


TITLED: dict[str, Any] = {"name": "fn_12", "title": "Weather forecast", "inputSchema": SCHEMA}
HINTED: dict[str, Any] = {"name": "fn_12", "annotations": {"title": "Weather forecast"}}


@pytest.mark.parametrize(
    "given",
    [
        TITLED,
        HINTED,
        ("fn_12", TITLED),
        mcp.types.Tool(name="fn_12", title="Weather forecast", input_schema=SCHEMA),
    ],
    ids=["mcp", "annotations", "pair", "mcp-sdk"],
)
def test_a_tool_is_found_by_its_title_as_in_a_gateway(given: Any, tmp_path: Path) -> None:
    with ToolMemory(embedder="none") as memory, ToolMemory(embedder="none") as other:
        memory.add(given, {"name": "fn_13", "title": "Send a letter"})
        (found,) = memory.select_tools_for_query("forecast", threshold=0.5)
        assert (found["name"], found["title"]) == ("fn_12", "Weather forecast")
        other.load(memory.save(tmp_path).parent)
        assert other.get("fn_12") == memory.get("fn_12")
        memory.update("fn_12", title="Timetable of trains")
        assert memory.select_tools_for_query("trains")[0]["name"] == "fn_12"


SHREDDER: dict[str, Any] = {
    "name": "fn_14",
    "inputSchema": SCHEMA,
    "annotations": {"title": "Shred", "destructiveHint": True},
    "icons": [{"src": "https://example.org/shred.png", "sizes": ["48x48"]}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"anthropic/searchHint": "destroy papers", "org.example/owner": "ops"},
}


@pytest.mark.parametrize(
    "given", [SHREDDER, mcp.types.Tool.model_validate(SHREDDER)], ids=["mcp", "mcp-sdk"]
)
def test_what_mcp_says_of_a_tool_is_kept_and_its_hint_is_searched(
    given: Any, tmp_path: Path
) -> None:
    members = ("annotations", "icons", "execution", "_meta")
    with ToolMemory(embedder="none") as memory, ToolMemory(embedder="none") as other:
        memory.add(given, {"name": "fn_13", "title": "Send a letter"})
        (found,) = memory.select_tools_for_query("destroy papers", threshold=0.5)
        assert {name: found[name] for name in members} == {n: SHREDDER[n] for n in members}
        found["annotations"].clear()
        found["icons"][0].clear()
        assert memory.get("fn_14").annotations == SHREDDER["annotations"]
        assert memory.get("fn_14").icons == tuple(SHREDDER["icons"])
        assert other.load(memory.save(tmp_path).parent) == 2
        assert other.get("fn_14") == memory.get("fn_14")
        (again,) = other.select_tools_for_query("destroy papers", threshold=0.5)
        assert again["_meta"] == SHREDDER["_meta"]
        assert other.get("fn_13").to_json().keys().isdisjoint(members)


def test_what_is_told_beside_a_function_is_kept_and_a_mistake_is_named() -> None:
    given: dict[str, Any] = {"type": "function", "function": WEATHER, "metadata": {"team": "a"}}
    assert Tool.of(given).metadata == {"team": "a"}
    with pytest.raises(InvalidRequest, match="'paramters', which is not known"):
        Tool.of({"type": "function", "function": {**WEATHER, "paramters": SCHEMA}})


class Arguments(BaseModel):
    city: str = Field(description="of which")


class Chained:
    """A tool of LangChain's kind."""

    name = "get_weather"
    description = "Weather of a city"
    args_schema = Arguments

    def invoke(self, arguments: dict[str, Any]) -> str:
        return f"sun in {arguments['city']}"


class Called(Chained):
    args_schema = SCHEMA

    def __call__(self, city: str) -> str:
        return f"rain in {city}"


def test_an_object_that_tells_of_itself_is_called_what_it_says() -> None:
    chained, called = Chained(), Called()
    tool = Tool.of(chained)
    assert (tool.name, tool.description) == ("get_weather", "Weather of a city")
    assert tool.input_schema["properties"]["city"]["description"] == "of which"
    assert tool.handle is not None
    assert tool.handle({"city": "Rome"}) == "sun in Rome"
    tool = Tool.of(called)
    assert (tool.name, tool.input_schema, tool.handle) == ("get_weather", SCHEMA, called)


class OfOneText(Chained):
    """As LangChain's `Tool` is: its schema is that of its own call, `args` has what it takes."""

    args_schema = None
    tool_call_schema = {"type": "object", "properties": {"args": {}, "config": {}, "kwargs": {}}}  # noqa: RUF012
    args = {"tool_input": {"type": "string"}}  # noqa: RUF012


def test_a_tool_of_one_text_takes_that() -> None:
    assert Tool.of(OfOneText()).input_schema == {
        "type": "object",
        "properties": {"tool_input": {"type": "string"}},
        "required": ["tool_input"],
    }


class Indexed:
    """A tool of LlamaIndex's kind: what it is called stands in its metadata."""

    class metadata:
        name = "get_weather"
        description = "Weather of a city"
        fn_schema = Arguments

    def __call__(self, *args: Any, **arguments: Any) -> str:
        """Run the function that it was made of."""
        return f"snow in {arguments['city']}"


class Served:
    """A tool of FastMCP's kind, a model with members of its own."""

    name = "get_weather"
    description = "Weather of a city"
    task_config = "forbidden"

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {**WEATHER, "task_config": self.task_config}

    def to_mcp_tool(self) -> mcp.types.Tool:
        return mcp.types.Tool.model_validate({**WEATHER, "inputSchema": SCHEMA})


def test_a_tool_is_not_called_like_its_class() -> None:
    indexed = Indexed()
    tool = Tool.of(indexed)
    assert (tool.name, tool.description) == ("get_weather", "Weather of a city")
    assert tool.input_schema["properties"]["city"]["description"] == "of which"
    assert tool.handle is indexed


def test_a_tool_that_can_say_itself_in_mcp_does() -> None:
    tool = Tool.of(Served())
    assert (tool.name, tool.input_schema) == ("get_weather", SCHEMA)


def test_what_the_caller_changes_afterwards_changes_no_tool() -> None:
    given: dict[str, Any] = {
        **WEATHER,
        "inputSchema": {"properties": {"city": {"type": "string"}}},
        "outputSchema": {"properties": {}},
        "metadata": {"teams": ["a"]},
    }
    with ToolMemory(embedder="none") as memory:
        memory.add(given, Tool("other", "other", input_schema=given["inputSchema"]))
        given["inputSchema"]["properties"]["city"]["type"] = "number"
        given["outputSchema"]["properties"]["x"] = {}
        given["metadata"]["teams"].append("b")
        memory.select_tools_for_query("weather")[0]["metadata"].clear()
        kept = memory.get("get_weather")
        assert kept.input_schema == {"properties": {"city": {"type": "string"}}}
        assert memory.get("other").input_schema == kept.input_schema
        assert (kept.output_schema, kept.metadata) == ({"properties": {}}, {"teams": ["a"]})


def test_a_tool_that_was_selected_is_one_for_another_memory() -> None:
    with ToolMemory(embedder="none") as memory, ToolMemory(embedder="none") as other:
        memory.add({**SHREDDER, **WEATHER, "title": "Weather", "handle": print})
        other.add(*memory.select_tools_for_query("weather"))
        assert other.get("get_weather") == memory.get("get_weather")


def test_what_metadata_holds_besides_json_stays_the_callers() -> None:
    client = object()
    assert Tool.of({**WEATHER, "metadata": {"client": client}}).metadata["client"] is client
