"""Rule D7: what goes wrong is repaired, asked for again, or shown to the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from armory.agent.chunks import Ask
from armory.agent.labels import Search
from armory.agent.loop import RetrievalAgent
from armory.agent.settings import AgentLimits
from armory.errors import InvalidRequest, RateLimited
from armory.llm.client import ChatClient, Completion
from armory.llm.errors import ChatLimited, ChatTimeout, ChatUnavailable
from armory.testing.chat import ScriptedChat, Turn
from tests.unit.agent.conftest import DEPLOY, DONE, NOTIFY, Run, Shelf, act

pytestmark = pytest.mark.anyio


async def test_a_malformed_turn_is_asked_for_once_more(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, "I would look for deploy tools.", DEPLOY, DONE)
    assert ran.kinds[0] == "malformed"
    assert "none of the fields" in ran.sent(1)
    assert ran.requests[1]["messages"][2]["content"] == "I would look for deploy tools."
    assert ran.result.stopped == "final_answer"
    assert ran.result.iterations == 1


@pytest.mark.parametrize("written", ["", "<think>First I would", "Thought: I would look"])
async def test_a_turn_that_was_cut_off_is_told_as_that(
    run: Run, shelf: Shelf, written: str
) -> None:
    limits = AgentLimits(answer_tokens=70)
    ran = await run(shelf, Turn(written, finish_reason="length"), DEPLOY, DONE, limits=limits)
    said = "it was cut off at 70 tokens, thinking included"
    assert said in ran.texts("malformed")[0]
    assert said in ran.sent(1)
    assert [sent["max_tokens"] for sent in ran.requests] == [70, 70, 70]


async def test_a_turn_that_a_filter_withheld_is_told_as_that(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, Turn("", finish_reason="content_filter"), DEPLOY, DONE)
    assert ran.texts("malformed") == ["a content filter withheld it"]


async def test_a_turn_that_was_cut_off_behind_its_action_is_no_problem(
    run: Run, shelf: Shelf
) -> None:
    ran = await run(shelf, Turn(DEPLOY, finish_reason="length"), DONE)
    assert ran.kinds[:2] == ["thought", "action"]


async def test_each_malformed_turn_is_asked_for_once_more(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, "hm", DEPLOY, "hm", NOTIFY, "hm", DONE)
    assert ran.kinds.count("malformed") == 3
    assert (ran.result.stopped, ran.result.iterations) == ("final_answer", 2)


async def test_a_second_malformed_turn_ends_the_run(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, "hm", "hm again", "never")
    assert ran.result.stopped == "malformed"
    assert len(ran.requests) == 3
    assert ran.result.tools[0].tool.name == "ci__deploy"


@pytest.mark.parametrize(
    ("asked", "said", "parameter"),
    [
        (
            {"rejected": "0" * 32},
            r"rejected is '000.*', expected a list of .* as in \['0",
            "rejected",
        ),
        ({"rejected": 5}, "rejected is 5, expected a list of digests", "rejected"),
        ({"rejected": ["ci__deploy#0"]}, "rejected holds 'ci__deploy#0', expected", "rejected"),
        ({"rejected": [5]}, "rejected holds 5, expected the `digest`", "rejected"),
        ({"top_k": 0}, "top_k is 0, expected a whole number, at least 1", "top_k"),
        ({"top_k": -1}, "top_k is -1", "top_k"),
        ({"top_k": "5"}, "top_k is '5'", "top_k"),
        ({"visible": ["ci__deploy"]}, r"visible is \['ci__deploy'\], expected a Vis", "visible"),
        ({"question": None}, "the question is None, expected a text", "query"),
        ({"question": " "}, "the question is empty", "query"),
    ],
)
async def test_what_could_not_be_meant_is_refused_before_the_model_is_asked(
    shelf: Shelf, asked: dict[str, Any], said: str, parameter: str
) -> None:
    arguments: dict[str, Any] = {"question": "deploy", **asked}
    async with ScriptedChat([DONE]) as server, ChatClient(server.url, "scripted") as chat:
        with pytest.raises(InvalidRequest, match=said) as caught:
            await RetrievalAgent(chat, [shelf]).run(**arguments)
        assert server.requests == []
    assert caught.value.parameter == parameter


async def test_a_turn_that_comes_as_a_tool_call_or_in_parts_is_carried_out(
    run: Run, shelf: Shelf
) -> None:
    asked = {"name": "functions.vector_search", "arguments": '{"query": "deploy"}'}
    call = Turn(message={"content": None, "tool_calls": [{"type": "function", "function": asked}]})
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "enough"}]}
    done = Turn(message={"content": [thought, {"type": "text", "text": DONE}]})
    ran = await run(shelf, call, done)
    assert ran.kinds[:2] == ["action", "observation"]
    assert ran.result.stopped == "final_answer"
    assert ran.result.tools[0].tool.name == "ci__deploy"


@pytest.mark.parametrize("turn", [Turn(fault="empty"), Turn(" \n\n")])
async def test_an_empty_turn_is_asked_for_once_more(run: Run, shelf: Shelf, turn: Turn) -> None:
    ran = await run(shelf, turn, DONE)
    assert ran.kinds == ["malformed", "thought", "final_answer"]
    sent = ran.requests[1]["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
    assert all(one["content"].strip() for one in sent)  # endpoints refuse messages without a text


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (act("google", "x"), "There is no tool 'google'. Use one of: vector_search, keyword_se"),
        ("Action: vector_search\nAction Input: {{{{", "not a JSON object: {{{{"),
        ("Action: vector_search", "not a JSON object: nothing"),
        (act("vector_search", "x", top_k=float("nan")), 'object: {"query": "x", "top_k": NaN}'),
        (act("vector_search", "x", top_k=float("inf")), 'object: {"query": "x", "top_k": Inf'),
        ('Action: vector_search\nAction Input: {"query": "x", "top_k": 1e999}', "not a JSON"),
        ('Action: vector_search\nAction Input: {"q": "x"}', 'needs a text under "query"'),
        ('Action: vector_search\nAction Input: {"query": " "}', 'needs a text under "query"'),
        (act("vector_search", "x", top_k=0), '"top_k" is 0; it must be'),
        (act("vector_search", "x", top_k="many"), "\"top_k\" is 'many'"),
        (act("vector_search", "x", top_k=True), '"top_k" is True'),
        (act("vector_search", "x", top_k="\u00b2"), "\"top_k\" is '\u00b2'"),
        (act("vector_search", "x", top_k="9" * 5_000), '"top_k" is \'999'),
    ],
)
async def test_a_wrong_action_becomes_an_observation(
    run: Run, shelf: Shelf, written: str, said: str
) -> None:
    ran = await run(shelf, written, DEPLOY, DONE)
    assert said in ran.texts("observation")[0]
    assert f"Observation: {ran.texts('observation')[0]}" in ran.sent(1)
    assert ran.result.iterations == 2
    assert len(shelf.asks) == 1
    json.dumps(ran.result.as_json(), allow_nan=False)


@pytest.mark.parametrize("name", ["VectorSearch", "Vector-Search", "functions.vector_search"])
async def test_a_nearly_right_tool_name_is_understood(run: Run, shelf: Shelf, name: str) -> None:
    if name == "VectorSearch":
        ran = await run(shelf, act(name, "deploy"), DONE)
        assert "There is no tool" in ran.texts("observation")[0]
        return
    await run(shelf, act(name, "deploy"), DONE)
    assert [search for search, _ in shelf.asks] == ["vector_search"]


async def test_repairs_are_in_the_trace(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, f"<think>hm</think>\n```\n{DEPLOY}\n```", DONE)
    thought = next(e for e in ran.result.trace if e.kind == "thought")
    assert thought.data["repairs"] == ["thinking tags taken out", "code fences taken out"]


async def test_a_failing_search_becomes_an_observation(run: Run, shelf: Shelf) -> None:
    shelf.broken = {"vector_search"}
    ran = await run(shelf, DEPLOY, NOTIFY, DONE)
    assert ran.texts("observation")[0] == (
        "vector_search failed: the vector store is down. Try keyword_search."
    )
    assert ran.result.stopped == "final_answer"


async def test_a_search_that_finds_no_room_is_shown_to_the_model(run: Run, shelf: Shelf) -> None:
    shelf.broken = {"keyword_search"}
    shelf.failure = RateLimited("512 of the gateway's searches are still under way")
    ran = await run(shelf, DEPLOY, NOTIFY, DONE)
    assert "keyword_search failed: 512 of the gateway's searches" in ran.texts("observation")[1]
    assert ran.result.stopped == "final_answer"
    assert ran.result.tools, "what was found before is not lost"


@pytest.fixture
async def late(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Searches make it 39.9 s after the beginning; called, it is made so long after that. What the
    first turn takes, on a slow machine, counts for nothing.
    """
    loop = asyncio.get_running_loop()
    clock, search = loop.time, shelf.search
    began = clock()

    def turn(to_s: float) -> None:
        now = clock()
        monkeypatch.setattr(loop, "time", lambda: began + to_s + clock() - now)

    async def slow(name: Search, ask: Ask) -> Sequence[Any]:
        turn(39.9)
        return await search(name, ask)

    monkeypatch.setattr(shelf, "search", slow)
    return turn


@pytest.mark.usefixtures("late")
async def test_the_time_limit_ends_the_run_with_what_there_is(run: Run, shelf: Shelf) -> None:
    limits = AgentLimits(time_s=40)
    ran = await run(shelf, DEPLOY, Turn(fault="hang"), limits=limits, timeout_s=60)
    assert ran.result.stopped == "time"
    assert ran.result.tools[0].tool.name == "ci__deploy"
    assert ran.result.took_ms >= 39_900
    assert "time limit of 40 s" in (ran.result.error or "")


async def test_a_search_that_never_ends_takes_no_longer_than_the_run(
    shelf: Shelf, late: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ChatClient):
        async def complete(self, *given: Any, **named: Any) -> Completion:
            answer = await super().complete(*given, **named)
            if "keyword_search" in answer.text:
                late(39.9)
            return answer

    async def search(name: Search, ask: Ask) -> Sequence[Any]:
        if name == "keyword_search":
            await asyncio.Event().wait()
        return await Shelf.search(shelf, name, ask)

    monkeypatch.setattr(shelf, "search", search)
    async with ScriptedChat([DEPLOY, NOTIFY]) as server, Slow(server.url, "small") as chat:
        agent = RetrievalAgent(chat, [shelf], AgentLimits(time_s=40))
        async with asyncio.timeout(30):
            result = await agent.run("deploy and notify the team")
    assert [event.text for event in result.trace if event.kind == "observation"][1] == (
        "keyword_search failed: the search took longer than the run may. Try vector_search."
    )
    assert result.stopped == "time"
    assert result.tools[0].tool.name == "ci__deploy"


async def test_a_timer_that_goes_off_early_is_the_time_limit_all_the_same(
    shelf: Shelf, late: Callable[[float], None]
) -> None:
    """The clock is read a little before the limit when the limit has cut the model off."""

    class Cut(ChatClient):
        async def complete(self, *given: Any, **named: Any) -> Completion:
            try:
                return await super().complete(*given, **named)
            except asyncio.CancelledError:
                late(30)
                raise

    async with (
        ScriptedChat([Turn(DEPLOY), Turn(fault="hang")]) as server,
        Cut(server.url, "small") as chat,
    ):
        agent = RetrievalAgent(chat, [shelf], AgentLimits(time_s=40))
        result = await agent.run("deploy and notify the team")
    assert result.took_ms < 40_000
    assert result.stopped == "time"
    assert "time limit of 40 s" in (result.error or "")


async def test_the_time_limit_before_anything_was_found_is_an_error(run: Run, shelf: Shelf) -> None:
    with pytest.raises(ChatTimeout):
        await run(shelf, Turn(fault="hang"), limits=AgentLimits(time_s=0.2))


async def test_the_token_limit_ends_the_run(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, limits=AgentLimits(tokens=210))  # 110 a turn
    assert ran.result.stopped == "tokens"
    assert len(ran.requests) == 2
    assert ran.result.prompt_tokens + ran.result.completion_tokens == 220


async def test_a_model_that_fails_in_the_middle_leaves_what_was_found(
    run: Run, shelf: Shelf
) -> None:
    ran = await run(shelf, DEPLOY, Turn(status=500))
    assert ran.result.stopped == "model"
    assert ran.kinds[-1] == "error"
    assert ran.result.tools[0].tool.name == "ci__deploy"


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (Turn(status=429), ChatLimited),
        (Turn(status=503), ChatUnavailable),
        (Turn(fault="close"), ChatUnavailable),
    ],
)
async def test_a_model_that_fails_at_once_is_an_error(
    run: Run, shelf: Shelf, turn: Turn, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await run(shelf, turn)


async def test_an_empty_question_is_refused(shelf: Shelf) -> None:
    async with ChatClient("http://127.0.0.1:9/v1", "small") as chat:
        with pytest.raises(InvalidRequest, match="empty"):
            await RetrievalAgent(chat, [shelf]).run("  ")


async def test_the_result_is_plain_json(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, DONE)
    told = json.loads(json.dumps(ran.result.as_json()))
    assert told["stopped"] == "final_answer"
    assert [e["kind"] for e in told["trace"]] == ran.kinds
    assert len(told["chunks"][0]["digest"]) == 32
    assert told["usage"] == {"prompt_tokens": 200, "completion_tokens": 20}
