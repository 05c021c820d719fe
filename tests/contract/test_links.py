"""One suite over every kind of upstream: transports and eras differ, what callers see does not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.link import Call, Owner, Refused
from armory.testing.clients.recording import RecordingClient, RecordingObserver, plain
from armory.testing.upstreams.exchange import Json
from armory.testing.upstreams.http import ScriptedUpstream
from armory.testing.upstreams.script import Script
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

MODERN = ("http-modern", "http-modern-stream", "stdio-modern")
LEGACY = ("http-legacy", "http-legacy-stream", "sse", "stdio-legacy")
HTTP = {
    "http-modern": ("modern", False),
    "http-modern-stream": ("modern", True),
    "http-legacy": ("legacy", False),
    "http-legacy-stream": ("legacy", True),
    "sse": ("", False),
}
BOUND_S = 10.0


class Rig:
    """A scripted upstream of one kind, and a pool in front of it."""

    def __init__(self, kind: str, server: ScriptedUpstream | None) -> None:
        self.kind = kind
        self.server = server
        self.observer = RecordingObserver()
        self.owner = Owner(ANONYMOUS)
        self.pool = Pool([self.spec()])
        self.pool.observers.add(self.observer)

    def spec(self, **more: Any) -> UpstreamSpec:
        if self.server is not None:
            url = self.server.sse_url if self.kind == "sse" else self.server.url
            return UpstreamSpec("up", url=url, **more)
        era = self.kind.removeprefix("stdio-")
        args = ("-m", "armory.testing.upstreams.stdio", "--era", era, *more.pop("args", ()))
        return UpstreamSpec("up", command=sys.executable, args=args, env=_paths(), **more)

    async def reconfigure(self, **more: Any) -> None:
        await self.pool.update([self.spec(**more)])

    @property
    def modern(self) -> bool:
        return self.kind in MODERN

    async def call(
        self,
        tool: str,
        arguments: Json | None = None,
        *,
        client: RecordingClient | None = None,
        meta: Json | None = None,
        owner: Owner | None = None,
        **more: Any,
    ) -> Any:
        """The tool's result; a JSON-RPC error as {"error": ...}."""
        params = {"name": raw(tool), "arguments": raw(arguments or {})}
        if meta is not None:
            params["_meta"] = raw(meta)
        call = Call("tools/call", params, client=client, name_header=tool, **more)
        reply = await self.pool.request("up", owner or self.owner, call)
        return plain(reply.result) if reply.error is None else {"error": plain(reply.error)}

    async def report(self) -> Any:
        return (await self.call("report"))["structuredContent"]


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _paths() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


@pytest.fixture(params=[*MODERN, *LEGACY])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for one in _rig(request.param):
        yield one


@pytest.fixture(params=LEGACY)
async def legacy(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async for one in _rig(request.param):
        yield one


async def _rig(kind: str) -> AsyncIterator[Rig]:
    if kind in HTTP:
        eras, stream = HTTP[kind]
        async with ScriptedUpstream(Script(), eras, stream=stream) as server:
            rig = Rig(kind, server)
            yield rig
            await rig.pool.close()
    else:
        rig = Rig(kind, None)
        yield rig
        await rig.pool.close()
    left = [task for task in asyncio.all_tasks() if "/armory/" in _file_of(task)]
    assert not left, "a task was left behind"


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)


async def test_era_and_identity_are_negotiated(rig: Rig) -> None:
    link = await rig.pool.link("up", rig.owner)
    assert link.era == ("modern" if rig.modern else "legacy")
    assert link.protocol_version == ("2026-07-28" if rig.modern else "2025-11-25")
    assert link.server_info["name"] == "scripted"
    assert link.instructions == "scripted instructions"
    assert rig.pool.era("up") == link.era


async def test_a_result_comes_back_as_it_was_sent(rig: Rig) -> None:
    arguments = {"text": "grüße\u2028\n", "big": 123456789012345678901234567890, "f": 1.5}
    result = await rig.call("echo", arguments, meta={"com.example/trace": {"a": [1]}})
    assert result["content"][0] == {"type": "text", "text": "grüße\u2028\n", "x": 1}
    assert result["content"][2] == {"type": "unheard-of", "payload": [1, 2.5, None]}
    assert result["structuredContent"]["arguments"] == arguments
    assert result["structuredContent"]["meta"]["com.example/trace"] == {"a": [1]}
    assert result["x-unknown"] == 12345678901234567890123


async def test_raw_arguments_may_span_lines(rig: Rig) -> None:
    call = Call(
        "tools/call",
        {"name": raw("echo"), "arguments": Raw(b'{\n "text":\r\n "a"\n}')},
        name_header="echo",
    )
    reply = await rig.pool.request("up", rig.owner, call)
    assert plain(reply.result)["structuredContent"]["arguments"] == {"text": "a"}


async def test_a_failing_tool_is_a_result(rig: Rig) -> None:
    assert (await rig.call("fail"))["isError"] is True


async def test_an_error_of_the_upstream_is_passed_on(rig: Rig) -> None:
    reply = await rig.call("error")
    assert reply == {"error": {"code": -32050, "message": "own error", "data": {"detail": [1]}}}
    assert (await rig.call("nonesuch"))["error"]["code"] == -32602


async def test_the_client_declares_its_own_capabilities(rig: Rig) -> None:
    client = RecordingClient({"sampling": {}, "x": {"deep": [1]}})
    result = await rig.call("who", client=client)
    assert result["structuredContent"]["capabilities"] == {"sampling": {}, "x": {"deep": [1]}}
    result = await rig.call("who", client=RecordingClient())
    assert result["structuredContent"]["capabilities"] == {}


async def test_many_calls_at_once_do_not_wait_for_each_other(rig: Rig) -> None:
    slow = asyncio.create_task(rig.call("wait"))
    results = await asyncio.gather(*(rig.call("echo", {"text": str(n)}) for n in range(20)))
    assert [r["content"][0]["text"] for r in results] == [str(n) for n in range(20)]
    assert not slow.done()
    await rig.call("free")
    assert (await slow)["content"][0]["text"] == "released"


async def test_progress_carries_the_clients_token(rig: Rig) -> None:
    client = RecordingClient(progress_token="mine")
    assert (await rig.call("progress", client=client))["content"][0]["text"] == "done"
    assert [(m, p["progressToken"], p["progress"]) for m, p in client.notes] == [
        ("notifications/progress", "mine", step) for step in range(3)
    ]


async def test_without_a_token_there_is_no_progress(rig: Rig) -> None:
    client = RecordingClient()
    await rig.call("progress", client=client)
    assert client.notes == []


async def test_log_messages_from_the_wanted_level_on(rig: Rig) -> None:
    client = RecordingClient(log_level="info")
    await rig.call("log", client=client)
    assert [p["level"] for _, p in client.notes] == ["info", "error"]
    silent = RecordingClient()
    await rig.call("log", client=silent)
    assert silent.notes == []


async def test_a_deadline_names_the_upstream_and_cancels(rig: Rig) -> None:
    with pytest.raises(UpstreamTimeout, match=r"'up' did not answer tools/call within 0\.2 s"):
        await rig.call("hang", timeout_s=0.2)
    await _cancelled(rig)
    assert (await rig.call("echo"))["isError"] is False


async def test_cancelling_the_caller_cancels_the_call(rig: Rig) -> None:
    task = asyncio.create_task(rig.call("hang"))
    await _reported(rig, "started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _cancelled(rig)


async def _cancelled(rig: Rig) -> None:
    if rig.modern and rig.server is not None:
        await asyncio.wait_for(rig.server.disconnected.wait(), BOUND_S)
    else:
        await _reported(rig, "cancelled")


async def _reported(rig: Rig, what: str) -> None:
    for _ in range(1_000):
        if (await rig.report())[what]:
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"nothing was {what}")


async def test_garbage_costs_nothing_but_itself(rig: Rig) -> None:
    assert (await rig.call("garbage"))["content"][0]["text"] == "after garbage"


async def test_an_answer_that_never_makes_sense_is_an_error(rig: Rig) -> None:
    with pytest.raises(UpstreamUnavailable, match="'up'"):
        await rig.call("only_garbage", timeout_s=0.5)
    assert (await rig.call("echo"))["isError"] is False


async def test_an_answer_counts_once(rig: Rig) -> None:
    assert (await rig.call("twice"))["content"][0]["text"] == "first"
    assert (await rig.call("stranger"))["content"][0]["text"] == "own answer"


async def test_a_megabyte_and_a_limit(rig: Rig) -> None:
    assert len((await rig.call("big", {"bytes": 3_000_000}))["content"][0]["text"]) == 3_000_000
    await rig.reconfigure(message_bytes=100_000)
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(UpstreamUnavailable, match="100000"):
            await rig.call("big", {"bytes": 3_000_000})
    assert (await rig.call("echo"))["isError"] is False


@pytest.mark.parametrize(
    "text",
    ["AZaz09+/" * 40_000, 'say "hello"\n' * 20_000, "é\u2028" * 30_000, "x" * 70_000 + '\\"'],
    ids=["plain", "escapes", "letters", "end"],
)
async def test_large_values_come_back_as_they_went(rig: Rig, text: str) -> None:
    result = await rig.call("echo", {"text": text, "more": [text[:9_000]]})
    assert result["content"][0]["text"] == text
    assert result["content"][2]["payload"] == [1, 2.5, None]
    assert result["structuredContent"]["arguments"] == {"text": text, "more": [text[:9_000]]}
    assert result["x-unknown"] == 12345678901234567890123


async def test_a_crash_in_mid_call_is_an_error_and_the_upstream_comes_back(rig: Rig) -> None:
    if rig.kind == "sse":
        assert rig.server is not None
        task = asyncio.create_task(rig.call("hang"))
        async with asyncio.timeout(BOUND_S):
            await rig.server.script.started.wait()
        await rig.server.stop()
        with pytest.raises(UpstreamUnavailable, match="'up'"):
            await task
        await rig.server.start()
    else:
        with pytest.raises(UpstreamUnavailable, match="'up'"):
            await rig.call("crash")
    assert (await rig.call("echo"))["isError"] is False


async def test_lists_change_and_the_listener_hears_it(rig: Rig) -> None:
    link = await rig.pool.upstream("up").own_link()
    assert await link.watch_lists() is True
    if rig.kind.startswith("http-legacy"):
        assert rig.server is not None
        async with asyncio.timeout(BOUND_S):
            await rig.server.get_opened.wait()
    await link.request(Call("tools/call", {"name": raw("grow")}, name_header="grow"))
    await rig.observer.until(lambda: "notifications/tools/list_changed" in rig.observer.methods)
    assert rig.observer.notified[-1] == ("up", "", "notifications/tools/list_changed", {})


async def test_resource_updates_reach_the_listener(rig: Rig) -> None:
    await rig.pool.set_subscriptions("up", rig.owner, frozenset({"mem://one", "mem://two"}))
    if rig.kind.startswith("http-legacy"):
        assert rig.server is not None
        async with asyncio.timeout(BOUND_S):
            await rig.server.get_opened.wait()
    await rig.call("touch", {"uri": "mem://two"})
    await rig.observer.until(lambda: bool(rig.observer.notified))
    key = rig.pool.key("up", rig.owner)
    assert rig.observer.notified == [
        ("up", key, "notifications/resources/updated", {"uri": "mem://two"})
    ]
    await rig.pool.set_subscriptions("up", rig.owner, frozenset({"mem://one"}))
    if not rig.modern:
        assert (await rig.report())["subscribed"] == ["mem://one"]
    await rig.pool.set_subscriptions("up", rig.owner, frozenset())
    if not rig.modern:
        assert (await rig.report())["subscribed"] == []


async def test_principals_do_not_share_a_session(rig: Rig) -> None:
    ann, bob = Owner(Principal("ann")), Owner(Principal("bob"))
    answers = [await rig.call("who", owner=owner) for owner in (ann, bob, ann)]
    sessions = [(a["structuredContent"]["session"]) for a in answers]
    assert sessions[0] == sessions[2]
    if rig.kind.startswith("http-modern"):
        return  # the era has no sessions
    assert sessions[0] != sessions[1]


# --- legacy only: the upstream asks


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
    before = legacy.pool.status()["up"].sessions
    await legacy.pool.release_session("one")
    assert legacy.pool.status()["up"].sessions == before - 1
    assert await session_of(legacy, owners[1]) == sessions[1]


async def test_calls_of_one_client_that_ask_at_once_are_all_answered(legacy: Rig) -> None:
    said = {"role": "assistant", "x": 1}
    client = RecordingClient({"sampling": {}}, answers={"sampling/createMessage": said})
    client.hold.clear()
    owner = Owner(ANONYMOUS, "one", client)
    calls = [
        asyncio.create_task(legacy.call("sample", client=client, owner=owner)) for _ in range(6)
    ]
    async with asyncio.timeout(BOUND_S):
        while len(client.asked) < 6:  # noqa: ASYNC110 the client's record has no event for it
            await asyncio.sleep(0)
        client.hold.set()
        answers = await asyncio.gather(*calls)
    assert [answer["structuredContent"].get("result") for answer in answers] == [said] * 6


async def test_resources_are_watched_where_the_client_calls(legacy: Rig) -> None:
    client = RecordingClient({"roots": {}})
    owner = Owner(ANONYMOUS, "one", client)
    await legacy.pool.set_subscriptions("up", owner, frozenset({"mem://one"}))
    told = await legacy.call("report", client=client, owner=owner)
    assert told["structuredContent"]["subscribed"] == ["mem://one"]


async def test_the_clock_stops_while_the_client_thinks(legacy: Rig) -> None:
    client = RecordingClient({"elicitation": {}}, answers={"elicitation/create": {}})
    client.hold.clear()
    task = asyncio.create_task(legacy.call("elicit", client=client, timeout_s=0.3))
    async with asyncio.timeout(BOUND_S):
        await client.was_asked.wait()
    await asyncio.sleep(0.5)  # longer than the call's deadline: that is what is tested
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
