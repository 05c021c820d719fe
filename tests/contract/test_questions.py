"""What an upstream asks of clients, over every transport that has sessions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import HEARS_PROGRESS, Answer, Owner, Params, Refused
from armory.testing.clients.recording import RecordingClient
from armory.testing.waiting import until
from tests.contract.links import BOUND_S, Rig, open_rig, raw

pytestmark = pytest.mark.anyio


async def test_questions_reach_the_client_that_can_answer(legacy: Rig) -> None:
    client = RecordingClient(
        {"elicitation": {}, "sampling": {}, "roots": {}},
        answers={
            "elicitation/create": {"action": "accept", "content": {"name": "Ann"}},
            "sampling/createMessage": {"role": "assistant", "x": 1},
            "roots/list": {"roots": []},
        },
    )
    for tool, method in (
        ("elicit", "elicitation/create"),
        ("sample", "sampling/createMessage"),
        ("roots", "roots/list"),
    ):
        answer = (await legacy.call(tool, client=client))["structuredContent"]
        assert answer["result"] == client.answers[method]
    assert [method for method, _ in client.asked] == list(client.answers)


async def test_a_refusal_of_the_client_is_passed_on(legacy: Rig) -> None:
    client = RecordingClient({"elicitation": {}})
    answer = (await legacy.call("elicit", client=client))["structuredContent"]
    assert answer["error"] == {"code": -1, "message": "declined"}


async def test_what_was_not_declared_is_not_asked_for(legacy: Rig) -> None:
    client = RecordingClient({"sampling": {}})
    answer = (await legacy.call("elicit", client=client))["structuredContent"]
    assert answer["error"]["code"] == -32601
    assert client.asked == []
    answer = (await legacy.call("elicit"))["structuredContent"]
    assert answer["error"]["code"] == -32601


async def test_a_client_that_is_gone_is_an_error_for_the_upstream(legacy: Rig) -> None:
    client = RecordingClient({"elicitation": {}})
    client.gone = True
    answer = (await legacy.call("elicit", client=client))["structuredContent"]
    assert "gone" in answer["error"]["message"]


async def test_a_question_outlives_the_call_that_caused_it(legacy: Rig) -> None:
    roots = {"roots": [{"uri": "file:///a"}]}
    client = RecordingClient({"roots": {}}, answers={"roots/list": roots})
    client.hold.clear()
    async with asyncio.timeout(BOUND_S):
        assert (await legacy.call("roots_later", client=client))["content"][0]["text"] == "asking"
        await client.was_asked.wait()
        client.hold.set()
        told: Any = None
        while told is None:
            told = (await legacy.call("report", client=client))["structuredContent"]["roots"]
    assert told == roots


async def session_of(rig: Rig, owner: Owner) -> str:
    assert isinstance(owner.client, RecordingClient)
    told = await rig.call("who", client=owner.client, owner=owner)
    return str(told["structuredContent"]["session"])


async def test_what_may_be_asked_of_a_client_is_asked_in_a_session_of_its_own(legacy: Rig) -> None:
    one, two = (RecordingClient({"roots": {}}) for _ in range(2))
    quiet = [Owner(ANONYMOUS, f"quiet {number}", RecordingClient()) for number in range(2)]
    owners = [Owner(ANONYMOUS, "one", one), Owner(ANONYMOUS, "two", two), *quiet]
    sessions = [await session_of(legacy, owner) for owner in owners]
    assert len(set(sessions[:2])) == 2
    assert sessions[2] == sessions[3] not in sessions[:2]
    key = ANONYMOUS.key
    assert [legacy.pool.key("up", owner) for owner in owners] == [
        f"{key}\none",
        f"{key}\ntwo",
        key,
        key,
    ]
    counts = legacy.pool.status()["up"].sessions
    assert (counts.own, counts.shared, counts.principals, counts.stateless) == (2, 1, 1, False)
    before = counts.open
    await legacy.pool.release_session("one")
    assert legacy.pool.status()["up"].sessions.open == before - 1
    assert await session_of(legacy, owners[1]) == sessions[1]


async def test_calls_of_one_client_that_ask_at_once_are_all_answered(legacy: Rig) -> None:
    said = {"role": "assistant", "x": 1}
    client = RecordingClient({"sampling": {}}, answers={"sampling/createMessage": said})
    client.hold.clear()
    owner = Owner(ANONYMOUS, "one", client)
    calls = [
        asyncio.create_task(legacy.call("sample", client=client, owner=owner)) for _ in range(6)
    ]
    await until(lambda: len(client.asked) == 6, BOUND_S)
    client.hold.set()
    async with asyncio.timeout(BOUND_S):
        answers = await asyncio.gather(*calls)
    assert [answer["structuredContent"].get("result") for answer in answers] == [said] * 6


async def test_calls_that_waited_when_their_process_died_go_to_the_next_one() -> None:
    client = RecordingClient({"elicitation": {}}, answers={"elicitation/create": {}})
    async with asynccontextmanager(open_rig)("stdio-legacy") as rig, asyncio.timeout(BOUND_S):
        first = await rig.call("who", client=client)
        await rig.call("elicit", client=client)  # from now on, one call at a time
        crash, *waiting = (
            asyncio.create_task(rig.call(tool, client=client)) for tool in ("crash", "who", "who")
        )
        with pytest.raises(UpstreamUnavailable, match="its process was killed"):
            await crash
        told = [(await each)["structuredContent"]["pid"] for each in waiting]
        assert told[0] == told[1] != first["structuredContent"]["pid"]


async def test_resources_are_watched_where_the_client_calls(legacy: Rig) -> None:
    client = RecordingClient({"roots": {}})
    owner = Owner(ANONYMOUS, "one", client)
    await legacy.pool.set_subscriptions("up", owner, frozenset({"mem://one"}))
    told = await legacy.call("report", client=client, owner=owner)
    assert told["structuredContent"]["subscribed"] == ["mem://one"]


async def test_resources_are_watched_in_sessions_that_are_opened_later(legacy: Rig) -> None:
    """A modern client says with each request what it can do: its calls may use another session."""
    await legacy.pool.set_subscriptions("up", legacy.owner, frozenset({"mem://one"}))
    for client in (RecordingClient(), RecordingClient({"sampling": {}})):
        told = await legacy.call("report", client=client)
        assert told["structuredContent"]["subscribed"] == ["mem://one"]
    await legacy.pool.set_subscriptions("up", legacy.owner, frozenset())
    for client in (RecordingClient(), RecordingClient({"sampling": {}})):
        told = await legacy.call("report", client=client)
        assert told["structuredContent"]["subscribed"] == []


async def test_the_clock_stops_while_the_client_thinks(legacy: Rig) -> None:
    client = RecordingClient({"elicitation": {}}, answers={"elicitation/create": {}})
    await legacy.call("who", client=client)  # the session is open: a start has a time of its own
    client.hold.clear()
    task = asyncio.create_task(legacy.call("elicit", client=client, timeout_s=2.0))
    async with asyncio.timeout(BOUND_S):
        await client.was_asked.wait()
    await asyncio.sleep(2.5)  # longer than the call's deadline: that is what is tested
    assert not task.done()
    client.hold.set()
    assert (await task)["structuredContent"]["result"] == {}


async def test_capability_profiles_do_not_share_a_session(legacy: Rig) -> None:
    plain_client, rich = RecordingClient(), RecordingClient({"sampling": {}})
    sessions = [
        (await legacy.call("who", client=client))["structuredContent"]["session"]
        for client in (plain_client, rich, RecordingClient({"sampling": {}}))
    ]
    assert sessions[0] != sessions[1] == sessions[2]


async def test_a_refused_subscription_says_so(legacy: Rig) -> None:
    with pytest.raises(Refused, match="no such resource"):
        await legacy.pool.set_subscriptions("up", legacy.owner, frozenset({"mem://refused"}))


async def test_progress_with_a_question_reaches_who_asks(legacy: Rig) -> None:
    client = RecordingClient({"sampling": {}}, answers={"sampling/createMessage": {}})
    ask = client.ask

    async def asked(method: str, params: Params) -> Answer:
        hears = HEARS_PROGRESS.get()
        if hears is not None:
            hears({"progressToken": raw("the client's"), "progress": raw(1.5), "x": raw([1])})
        return await ask(method, params)

    client.ask = asked
    await legacy.call("sample", {"_meta": {"progressToken": "UP1"}}, client=client)
    await legacy.call("sample", client=client)  # which wants to hear nothing
    async with asyncio.timeout(BOUND_S):
        told: Any = {"progress": []}
        while not told["progress"]:
            told = (await legacy.call("report", client=client))["structuredContent"]
    assert told["progress"] == [{"progressToken": "UP1", "progress": 1.5, "x": [1]}]
