"""Mistakes in what is handed to ToolMemory: each is told with the value and what was expected."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from armory import AsyncToolMemory, Tool, ToolMemory
from armory.errors import ConfigError, InvalidRequest
from armory.testing.embedder import HashingEmbedder

WEATHER = {"name": "get_weather", "description": "Weather forecast for a city"}


@pytest.fixture
def memory() -> Iterator[ToolMemory]:
    with ToolMemory(embedder=HashingEmbedder()) as made:
        made.add(WEATHER)
        yield made


@pytest.mark.parametrize(
    ("options", "said", "parameter"),
    [
        ({"top_k": "3"}, "top_k is '3', expected a whole number", "top_k"),
        ({"top_k": 2.5}, "top_k is 2.5, expected a whole number", "top_k"),
        ({"top_k": None}, "top_k is None", "top_k"),
        ({"query": None}, "query is None, expected a text", "query"),
        ({"query": b"rain"}, "query is b'rain', expected a text", "query"),
        ({"query": ["rain", None]}, "NoneType, expected text", "query"),
        ({"threshold": "0.5"}, "threshold is '0.5', expected a number from 0 to 1", "threshold"),
        ({"threshold": 2}, "threshold is 2, expected", "threshold"),
        ({"threshold": -1}, "threshold is -1, expected", "threshold"),
        ({"threshold": float("nan")}, "threshold is nan, expected", "threshold"),
        ({"min_score": "a"}, "min_score is 'a', expected a number", "min_score"),
        ({"min_score": float("nan")}, "min_score is nan", "min_score"),
        ({"min_score": 10**400}, "expected a number", "min_score"),
        ({"filters": "ops"}, "filters is 'ops', expected metadata", "filters"),
        ({"filters": {"tags": 5}}, "tags is 5, expected a tag", "filters"),
        ({"exclude": "get_weather"}, r"as in \['get_weather'\]", "exclude"),
        ({"exclude": [5]}, "exclude holds 5", "exclude"),
    ],
)
def test_arguments_of_a_selection(
    memory: ToolMemory, options: dict[str, Any], said: str, parameter: str
) -> None:
    asked: dict[str, Any] = {"query": "rain", **options}
    with pytest.raises(InvalidRequest, match=said) as caught:
        memory.select_tools_for_query(**asked)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("given", [WEATHER, ["get_weather"], None])
@pytest.mark.parametrize("method", ["get", "update", "remove"])
def test_a_tool_in_the_place_of_its_identifier(memory: ToolMemory, method: str, given: Any) -> None:
    with pytest.raises(InvalidRequest, match="expected the text that `add` returned") as caught:
        getattr(memory, method)(given)
    assert caught.value.parameter == "identifier"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranker": "bogus"}, "unknown ranker 'bogus'; one of hybrid, lexical"),
        ({"ranker": None}, "unknown ranker None"),
        ({"diversity": -1}, "diversity is -1, expected a number above 0"),
        ({"diversity": 0}, "diversity is 0, expected"),
        ({"diversity": 5}, "diversity is 5, expected"),
        ({"tag_boosts": {"a": "2"}}, "tag_boosts: 'a' is '2', expected a factor"),
        ({"tag_boosts": {"a": -1}}, "tag_boosts: 'a' is -1"),
    ],
)
def test_options_of_a_memory(options: dict[str, Any], said: str) -> None:
    for embedder in ("none", HashingEmbedder()):
        with pytest.raises(ConfigError, match=said):
            AsyncToolMemory(embedder=embedder, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"embedder": 5}, "embedder is 5, expected a name, or an object with identity"),
        ({"embedder": HashingEmbedder}, "embedder is <class"),
        ({"index": 5}, "index is 5, expected a name, or an object with stored"),
        ({"index": None}, "index is None"),
        ({"reranker": "a-model"}, "reranker is 'a-model', expected None, or an object with scores"),
        ({"folder": 5}, "folder is 5, expected a path"),
    ],
)
def test_parts_that_are_none_are_told_before_the_first_selection(
    options: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {"embedder": "none", **options}
    with pytest.raises(ConfigError, match=said):
        ToolMemory(**given)


class Plain(HashingEmbedder):
    """An embedder as many libraries have them."""

    def embed_queries(self, texts: Sequence[str]) -> Any:
        return [[1.0] for _ in texts]


class Asked(HashingEmbedder):
    def identity(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return "asked"


class Passed(HashingEmbedder):
    """What is called is no function, so nothing is known of it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_queries = partial(super().embed_queries)


class Grades:
    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [1.0 for _ in texts]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"embedder": Plain()}, "embedder.embed_queries is a plain function, expected `async def`"),
        ({"embedder": Asked()}, "embedder.identity is a plain function, expected a property"),
        ({"reranker": Grades()}, "reranker.scores is a plain function, expected `async def`"),
    ],
)
def test_a_part_that_cannot_be_awaited_is_told_before_the_first_selection(
    options: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {"embedder": "none", **options}
    with pytest.raises(ConfigError, match=said):
        ToolMemory(**given)
    with ToolMemory(embedder=Passed()) as memory:
        memory.add(WEATHER)
        assert len(memory.select_tools_for_query("weather")) == 1


def test_an_unknown_part_is_told_of_the_argument() -> None:
    with pytest.raises(ConfigError, match=r"^embedder: fastembed") as caught:
        ToolMemory(embedder="nosuch")
    assert caught.value.path == "embedder"
    with pytest.raises(ConfigError, match=r"^index: unknown index 'nosuch'; one of exact, faiss"):
        ToolMemory(index="nosuch")


def test_a_model_of_openai_goes_by_the_variable_that_the_message_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
        ToolMemory(embedder="text-embedding-3-small")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    ToolMemory(embedder="text-embedding-3-small").close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"description": None}, "description is None, expected a text"),
        ({"input_schema": "abc"}, "input_schema is 'abc', expected an object"),
        ({"output_schema": 5}, "output_schema is 5, expected an object, or None"),
        ({"input_schema": {"default": {1}}}, "its inputSchema is no JSON"),
        ({"tags": "abc"}, "tags is 'abc', expected a list of texts"),
        ({"examples": [5]}, r"examples is \[5\], expected a list of texts"),
        ({"metadata": ["private"]}, "metadata is"),
        ({"annotations": "readOnly"}, "annotations is 'readOnly', expected an object"),
        ({"icons": {"src": "a.png"}}, "icons is .*, expected a list of objects"),
        ({"icons": ["a.png"]}, "icons is .*, expected a list of objects"),
        ({"execution": 5}, "execution is 5, expected an object"),
        ({"meta": []}, r"meta is \[\], expected an object"),
        ({"meta": {"owner": {1}}}, "its _meta is no JSON: .* set"),
        ({"name": ""}, "name is '', expected a text that is not empty"),
        ({"handle": "print"}, "handle is 'print', expected something that can be called"),
    ],
)
def test_attributes_of_a_tool(memory: ToolMemory, changes: dict[str, Any], said: str) -> None:
    before = memory.get("get_weather")
    with pytest.raises(InvalidRequest, match=said) as caught:
        memory.update("get_weather", **changes)
    assert caught.value.parameter in changes
    attributes: dict[str, Any] = {"name": "other", **changes}
    with pytest.raises(InvalidRequest, match=said):
        memory.add(Tool("other", **attributes))
    assert memory.get("get_weather") is before
    assert len(memory.select_tools_for_query("weather")) == 1


def test_tools_that_cannot_be_added(memory: ToolMemory, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"is no tool: .* its own: add\(\*tools\)"):
        memory.add([WEATHER])  # pyright: ignore[reportArgumentType]
    for nameless in (lambda: 1, partial(lambda: 1)):
        with pytest.raises(InvalidRequest, match="has no name that a model could call; write it"):
            memory.add(nameless)
    with pytest.raises(InvalidRequest, match="handles is 5, expected a callable by identifier"):
        memory.load(tmp_path, handles=5)  # pyright: ignore[reportArgumentType]
    holds_itself: dict[str, Any] = {}
    holds_itself["properties"] = holds_itself
    with pytest.raises(InvalidRequest, match=r"input_schema is .*, expected an object that is"):
        memory.add({"name": "odd", "inputSchema": holds_itself})
    for member, value, said in (
        ("outputSchema", 5, "outputSchema is 5, expected an object"),
        ("description", ["Find"], r"description is \['Find'\], expected a text"),
        ("title", 5, "title is 5, expected a text"),
        ("identifier", 5, "identifier is 5, expected a text"),
        ("tags", [5], r"tags is \(5,\), expected a list of texts"),
        ("examples", [None], r"examples is \(None,\), expected a list of texts"),
        ("_meta", [5], r"_meta is \[5\], expected an object"),
    ):
        with pytest.raises(InvalidRequest, match=said) as caught:
            memory.add({"name": "odd", member: value})
        assert caught.value.parameter == member
    with pytest.raises(InvalidRequest, match="identifier 'x' is given twice"):
        memory.add({"name": "x", "description": "one"}, {"name": "x", "description": "two"})
    with pytest.raises(InvalidRequest, match="has no 'inputSchema'; it has name, description"):
        memory.update("get_weather", inputSchema={})
    assert len(memory) == 1
    assert memory.update("get_weather", tags=["a", "b"]).tags == ("a", "b")


def test_handles_of_tools_that_were_not_saved_are_named(memory: ToolMemory, tmp_path: Path) -> None:
    memory.save(tmp_path)
    with ToolMemory(embedder="none") as other:
        misspelt = {"get_wether": print, "send": print, "get_weather": print}
        with pytest.raises(InvalidRequest, match=r"of \['get_wether', 'send'\]") as caught:
            other.load(tmp_path, handles=misspelt)
        assert (caught.value.parameter, len(other)) == ("handles", 0)
        assert other.load(tmp_path, handles={"get_weather": print}) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"version": 1}, "tools is None, expected a list"),
        ({"version": 1, "tools": 5}, "tools is 5, expected a list"),
        ({"version": 1, "tools": [5]}, r"tools\[0\] is 5, expected an object"),
        ({"version": 1, "tools": [{"name": ""}]}, r"tools\[0\]: a tool needs a name"),
        ({"version": 1, "tools": [{"name": "a", "outputSchema": 5}]}, "outputSchema is 5"),
        ({"version": 1, "tools": [{"name": "a"}, {"name": "a"}]}, "identifier 'a' is there twice"),
    ],
)
def test_a_damaged_file(memory: ToolMemory, tmp_path: Path, content: Any, said: str) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=rf"tools\.json is damaged: .*{said}"):
        memory.load(tmp_path)
    assert len(memory) == 1


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    memory = ToolMemory(embedder=HashingEmbedder())
    memory.add(WEATHER)
    context = memory.expansion()
    memory.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that nobody awaits
        memory.close()
        for use in (
            lambda: memory.select_tools_for_query("x"),
            lambda: memory.save(tmp_path),
            lambda: memory.remove("get_weather"),
            lambda: context.search_tools("x"),
        ):
            with pytest.raises(InvalidRequest, match="is closed"):
                use()


@pytest.mark.anyio
async def test_a_closed_asynchronous_memory_says_so() -> None:
    memory = AsyncToolMemory(embedder=HashingEmbedder())
    memory.add(WEATHER)
    await memory.aclose()
    with pytest.raises(InvalidRequest, match="is closed"):
        await memory.select_tools_for_query("x")
    for change in (
        lambda: memory.add({**WEATHER, "name": "another"}),
        lambda: memory.update("get_weather", description="x"),
        lambda: memory.remove("get_weather"),
    ):
        with pytest.raises(InvalidRequest, match="is closed"):
            change()
    assert memory.get("get_weather").name == "get_weather"


def test_a_filter_that_asks_the_memory_itself_is_told(memory: ToolMemory) -> None:
    """It would wait for the thread on which it runs."""
    asked: tuple[Callable[[], object], ...] = (
        lambda: memory.select_tools_for_query("rain"),
        lambda: memory.remove("get_weather"),
        memory.close,
    )
    for ask in asked:
        with pytest.raises(InvalidRequest, match="cannot be used by what it calls itself"):
            memory.select_tools_for_query("rain", filters=lambda _tool, ask=ask: bool(ask()))
    assert len(memory.select_tools_for_query("weather")) == 1


def test_a_memory_that_is_to_be_pickled_or_copied_says_what_to_do(memory: ToolMemory) -> None:
    inside = AsyncToolMemory(embedder="none")
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        for one in (memory, inside):
            with pytest.raises(TypeError, match="neither pickled nor copied; save"):
                make(one)
    assert len(memory.select_tools_for_query("weather")) == 1
