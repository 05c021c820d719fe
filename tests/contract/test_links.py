"""One suite over every kind of upstream: transports and eras differ, what callers see does not."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.link import Call, CancelReason, Owner
from armory.testing.clients.recording import RecordingClient, plain
from tests.contract.links import BOUND_S, Rig, raw

pytestmark = pytest.mark.anyio


async def test_era_and_identity_are_negotiated(rig: Rig) -> None:
    link = await rig.link(rig.owner)
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
    await rig.call("echo")  # the session is open: a start has a time of its own
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


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (CancelReason("no longer w\u00e4nted"), "no longer w\u00e4nted"),
        (None, "the caller went away or its time ran out"),
        ("a library's own", "the caller went away or its time ran out"),
    ],
)
async def test_a_client_that_says_why_it_cancels_is_quoted(
    legacy: Rig, reason: str | None, told: str
) -> None:
    task = asyncio.create_task(legacy.call("hang"))
    await _reported(legacy, "started")
    task.cancel(reason)
    with pytest.raises(asyncio.CancelledError):
        await task
    await _reported(legacy, "cancelled")
    assert (await legacy.report())["reasons"] == [told]


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
        with pytest.raises(UpstreamUnavailable, match=r"100000.* server\.limits\.stdio_line_bytes"):
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
    assert await link.subscriptions.watch_lists() is True
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


class Caller:
    """What only a caller knows, such as its access token."""


async def test_nothing_of_its_calls_stays_after_a_session(rig: Rig) -> None:
    """A timer of `call_timeout_s` held it for minutes, or hours."""
    known: ContextVar[Caller | None] = ContextVar("known", default=None)

    async def call() -> weakref.ref[Caller]:
        caller = Caller()
        known.set(caller)
        assert (await rig.call("echo", timeout_s=600.0))["isError"] is False
        return weakref.ref(caller)

    await rig.call("echo")  # the session is open
    caller = await asyncio.create_task(call())
    await rig.pool.close()
    await asyncio.sleep(0)
    gc.collect()
    assert caller() is None
