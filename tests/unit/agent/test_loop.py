"""The loop against a scripted chat endpoint: a transcript for each rule."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from structlog.testing import capture_logs

from armory.agent.findings import Event
from armory.agent.labels import Search
from armory.agent.loop import RetrievalAgent
from armory.agent.prompt import LAST_TURN
from armory.agent.settings import AgentLimits
from armory.domain.query import VisibleSet
from armory.errors import InvalidRequest
from armory.llm.client import ChatClient
from armory.observability.logging import redact
from armory.testing.chat import ScriptedChat, Turn
from tests.unit.agent.conftest import DEPLOY, DONE, NOTIFY, Run, Shelf, act

pytestmark = pytest.mark.anyio


# Rule D1, the loop.


async def test_thought_action_observation_final_answer(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, NOTIFY, DONE)
    assert ran.kinds == [
        "thought", "action", "observation",
        "thought", "action", "observation",
        "thought", "final_answer",
    ]  # fmt: skip
    assert ran.result.stopped == "final_answer"
    assert ran.result.iterations == 2
    assert ran.result.answer == "chat__notify#0, then ci__deploy#0."
    assert [f.tool.name for f in ran.result.tools] == [
        "chat__notify", "ci__deploy",  # as the answer names them
        "ci__rollback", "mail__send", "ci__status",  # by strength: 0.40, 9.0 = 0.37, 0.25
    ]  # fmt: skip
    assert [f.named for f in ran.result.tools] == [True, True, False, False, False]


async def test_the_model_sees_its_own_steps_and_the_observations(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, DONE)
    roles = [message["role"] for message in ran.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert ran.requests[1]["messages"][2]["content"] == DEPLOY
    assert ran.sent(1).startswith("Observation: vector_search found 4 chunks")
    assert "Request: deploy and notify the team" in ran.sent(0)
    assert ran.requests[0]["stop"] == ["\nObservation:"]


async def test_the_log_says_what_a_run_cost(run: Run, shelf: Shelf) -> None:
    with capture_logs() as logs:
        ran = await run(shelf, DEPLOY, DONE)
    entry = next(entry for entry in logs if entry["event"] == "agent_finished")
    spent = ran.result.prompt_tokens + ran.result.completion_tokens
    assert redact(None, "info", dict(entry))["tokens_used"] == spent > 0


async def test_it_stops_early(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, "Thought: I know\nFinal Answer: nothing is needed", "never")
    assert (ran.result.iterations, ran.result.tools, len(ran.requests)) == (0, (), 1)


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 5])
async def test_each_bound_of_iterations_holds(run: Run, shelf: Shelf, bound: int) -> None:
    ran = await run(shelf, DEPLOY, limits=AgentLimits(max_iterations=bound))
    assert ran.result.iterations == bound
    assert ran.result.stopped == "iterations"
    # One more turn asks for the answer alone; the action that came instead is not carried out.
    assert len(ran.requests) == bound + 1
    assert ran.texts("observation") == [ran.texts("observation")[0]] + [
        text for text in ran.texts("observation")[1:] if "0 new" in text
    ]
    assert len(ran.texts("observation")) == bound
    assert ran.sent(bound).endswith(LAST_TURN)
    assert all(LAST_TURN not in ran.sent(turn) for turn in range(bound))
    assert ran.result.tools[0].tool.name == "ci__deploy"


@pytest.mark.parametrize("bound", [1, 5])
async def test_the_closing_turn_may_answer(run: Run, shelf: Shelf, bound: int) -> None:
    ran = await run(shelf, *[DEPLOY] * bound, DONE, limits=AgentLimits(max_iterations=bound))
    assert (ran.result.iterations, ran.result.stopped) == (bound, "final_answer")


@pytest.mark.parametrize("bound", [0, 6, -1, "2", 2.5, True])
def test_bounds_outside_one_to_five_are_refused(bound: Any) -> None:
    with pytest.raises(InvalidRequest, match="1 to 5"):
        AgentLimits(max_iterations=bound)


@pytest.mark.parametrize("name", ["time_s", "tokens", "answer_tokens", "top_k"])
@pytest.mark.parametrize("value", [0, -1, "9", None, True, float("nan")])
def test_limits_that_let_nothing_run_are_refused(name: str, value: Any) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(InvalidRequest, match=f"{name} is {value!r}; it must be") as caught:
        AgentLimits(**given)
    assert caught.value.parameter == name


async def test_the_prompt_prefers_few_searches_and_names_the_bound(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DONE, limits=AgentLimits(max_iterations=3))
    system = ran.requests[0]["messages"][0]["content"]
    assert "Prefer one or two searches. You have at most 3 searches." in system
    assert '{"query": "<text>", "top_k": 5}' in system


# Rule D2: the model is whatever the URL offers.


async def test_the_model_is_asked_by_its_name(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DONE)
    assert ran.requests[0]["model"] == "small"


# Rule D3: two tools, and the model routes.


@pytest.mark.parametrize("action", ["vector_search", "keyword_search"])
async def test_the_action_decides_which_search_runs(run: Run, shelf: Shelf, action: Search) -> None:
    await run(shelf, act(action, "anything"), DONE)
    assert [search for search, _ in shelf.asks] == [action]


@pytest.mark.parametrize(
    ("more", "asked"),
    [({}, 5), ({"top_k": 3}, 3), ({"top_k": "7"}, 7), ({"top_k": 2.0}, 2), ({"top_k": 900}, 50)],
)
async def test_top_k_is_five_unless_given(
    run: Run, shelf: Shelf, more: dict[str, Any], asked: int
) -> None:
    await run(shelf, act("vector_search", "deploy", **more), DONE)
    assert shelf.asks[0][1].top_k == asked


async def test_the_caller_s_tools_and_user_reach_the_search(run: Run, shelf: Shelf) -> None:
    seen = VisibleSet(frozenset({"ci__deploy"}))
    await run(shelf, DEPLOY, DONE, visible=seen, user="ada")
    assert shelf.asks[0][1].visible is seen
    assert shelf.asks[0][1].user == "ada"


async def test_every_source_is_searched(shelf: Shelf) -> None:
    async with ScriptedChat([DEPLOY, DONE]) as server, ChatClient(server.url, "small") as chat:
        await RetrievalAgent(chat, [shelf, shelf]).run("deploy")
    assert len(shelf.asks) == 2


# Rule D5, quality labels.


async def test_observations_carry_counts_and_labels(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, NOTIFY, DONE)
    first, second = ran.texts("observation")
    assert "found 4 chunks (quality: 1 strong, 1 good, 1 marginal, 1 noise; 4 new)." in first
    assert "[1] ci__deploy#0 (strong, 0.71)" in first
    assert "found 3 chunks (quality: 1 strong, 1 good, 1 weak; 1 new)." in second
    data = next(e for e in ran.result.trace if e.kind == "observation").data
    assert data["chunks"][0] == {"id": "ci__deploy#0", "score": 0.71, "label": "strong"}


async def test_the_prompt_carries_the_thresholds(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DONE)
    system = ran.requests[0]["messages"][0]["content"]
    assert "strong (15 or more), good (8 to 15), partial (3 to 8), weak (1 to 3), none" in system
    assert "strong (0.5 or more), good (0.35 to 0.5), marginal (0.2 to 0.35), noise" in system


async def test_nothing_found_is_said(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, act("vector_search", "unheard of"), DONE)
    assert ran.texts("observation") == [
        "vector_search found 0 chunks (quality: none). Try other words."
    ]


# Rule D6, duplicates and rejections.


async def test_chunks_are_kept_once_with_their_highest_score(run: Run, shelf: Shelf) -> None:
    ran = await run(shelf, DEPLOY, NOTIFY, DONE)
    kept = {hit.chunk.id: hit for hit in ran.result.chunks}
    assert len(kept) == len(ran.result.chunks) == 5
    assert kept["mail__send#0"].score == 9.0  # BM25 9.0 is good, cosine 0.10 was noise
    assert kept["ci__status#0"].score == 0.25  # cosine 0.25 is marginal, BM25 0.5 is weak


async def test_rejected_chunks_do_not_come_back_on_a_retry_round(run: Run, shelf: Shelf) -> None:
    first = await run(shelf, DEPLOY, DONE)
    graded_out = {first.result.chunks[0].chunk.digest}
    second = await run(shelf, act("vector_search", "deploy", top_k=2), DONE, rejected=graded_out)
    assert [h.chunk.id for h in second.result.chunks] == ["ci__rollback#0", "ci__status#0"]
    assert "1 rejected earlier left out" in second.texts("observation")[0]
    assert "ci__deploy" not in [f.tool.name for f in second.result.tools]


# Rule D8: the trace streams.


async def test_events_arrive_while_the_model_is_still_working(shelf: Shelf) -> None:
    seen: list[Event] = []
    async with (
        ScriptedChat([DEPLOY, Turn(fault="hang")]) as server,
        ChatClient(server.url, "small", max_retries=0) as chat,
    ):
        agent = RetrievalAgent(chat, [shelf])
        async with asyncio.timeout(30), aclosing(agent.stream("deploy")) as events:
            async for event in events:
                seen.append(event)
                if event.kind == "observation":
                    break
    assert [event.kind for event in seen] == ["thought", "action", "observation"]
    assert [event.iteration for event in seen] == [0, 1, 1]


async def test_the_last_event_carries_the_result(shelf: Shelf) -> None:
    async with (
        ScriptedChat([DEPLOY, DONE]) as server,
        ChatClient(server.url, "small") as chat,
        aclosing(RetrievalAgent(chat, [shelf]).stream("deploy")) as events,
    ):
        seen = [event async for event in events]
    assert [e.result is not None for e in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1].kind == "result"
