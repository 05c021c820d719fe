"""Streamable HTTP in both eras, beyond what every link shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.link import Call, Owner, Refused
from armory.protocol.session_events import Renewed
from armory.testing.clients.recording import RecordingClient, RecordingObserver, plain
from armory.testing.upstreams.exchange import Json, Wire, definition
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.session import lane
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_failures import HttpFailure

pytestmark = pytest.mark.anyio

Open = Callable[..., Awaitable[BaseLink]]
INFO = {"name": "test", "version": "0"}


@pytest.fixture
async def server() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream() as server:
        yield server


@pytest.fixture
async def connect(server: HttpUpstream, observer: RecordingObserver) -> AsyncIterator[Open]:
    opened: list[BaseLink | Connector] = []

    async def connecting(eras: str, capabilities: Any = None, **more: Any) -> BaseLink:
        server.eras = eras
        connector = Connector(UpstreamSpec("up", url=server.url, **more), INFO)
        link = await connector.connect(Owner(ANONYMOUS), capabilities or {}, observer)
        opened.extend((link, connector))
        return link

    yield connecting
    for one in opened:
        await one.close()


async def call(link: BaseLink, tool: str, arguments: bytes = b"{}", **more: Any) -> Any:
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(arguments)}
    reply = await link.request(Call("tools/call", params, name_header=tool, **more))
    return plain(reply.result) if reply.error is None else {"error": plain(reply.error)}


# --- modern


async def test_modern_headers(connect: Open, server: HttpUpstream) -> None:
    link = await connect("modern", headers={"Authorization": "Bearer x"})
    name = "naïve tool"
    server.script.tools = [definition(name)]
    assert (await call(link, name))["error"]["code"] == -32602  # the script has no such tool
    headers, body = server.requests[-1]
    assert headers["MCP-Protocol-Version"] == "2026-07-28"
    assert headers["Mcp-Method"] == "tools/call"
    assert headers["Mcp-Name"] == "=?base64?bmHDr3ZlIHRvb2w=?="
    assert headers["Authorization"] == "Bearer x"
    assert headers["Accept"] == "application/json, text/event-stream"
    meta = body["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientInfo"] == INFO


async def test_param_headers_are_checked_by_the_upstream(
    connect: Open, server: HttpUpstream
) -> None:
    link = await connect("modern")
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}}
    server.script.tools = [definition("echo", inputSchema=schema)]
    answer = await call(link, "echo", b'{"r":"eu"}')
    assert answer["error"]["code"] == -32020
    answer = await call(link, "echo", b'{"r":"eu"}', param_headers={"Mcp-Param-Region": "eu"})
    assert answer["isError"] is False


async def test_a_multi_round_trip_passes_through(connect: Open) -> None:
    link = await connect("modern")
    client = RecordingClient({"elicitation": {}})
    first = await call(link, "input", client=client)
    assert (first["resultType"], first["requestState"]) == ("input_required", "opaque")
    params = {"name": Raw(b'"input"'), "inputResponses": Raw(b'{"a":{"action":"accept"}}')}
    reply = await link.request(Call("tools/call", params, client=client, name_header="input"))
    assert plain(reply.result)["structuredContent"] == {"got": {"a": {"action": "accept"}}}


@pytest.mark.parametrize("stream", [False, True])
async def test_connections_are_used_again(
    connect: Open, server: HttpUpstream, stream: bool
) -> None:
    server.stream = stream
    link: Any = await connect("modern")
    idle = link._client._connections._idle
    for _ in range(10):
        await call(link, "echo")
        await until(lambda: any(idle.values()))  # the end of a stream comes behind its answer
    assert len(server.peers) == 1


async def test_a_stream_that_ends_early_is_an_error(connect: Open) -> None:
    link = await connect("modern")
    client = RecordingClient(progress_token=1)
    with pytest.raises(UpstreamUnavailable, match=r"ended before the answer|in the middle|failed"):
        await call(link, "half", client=client)


async def test_http_errors_keep_their_meaning(connect: Open, server: HttpUpstream) -> None:
    link = await connect("modern")
    for status, hint in ((401, "armory login up"), (500, "failing on purpose")):
        server.fail_with = status
        with pytest.raises(HttpFailure, match=f"HTTP {status}.*{hint}") as caught:
            await call(link, "echo")
        assert caught.value.status == status


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_when_to_try_again_is_read_also_beside_json(
    connect: Open, server: HttpUpstream, era: str
) -> None:
    link = await connect(era)
    server.fail_with, server.retry_after = 429, "7"
    with pytest.raises(HttpFailure, match=r"HTTP 429 \(busy\)") as caught:
        await call(link, "echo")
    assert caught.value.retry_after_s == 7


async def test_a_lost_listening_stream_is_opened_again_and_the_gap_reported(
    connect: Open, server: HttpUpstream, observer: RecordingObserver
) -> None:
    link = await connect("modern")
    assert await link.subscriptions.watch_lists()
    await link.subscriptions.set_resources(frozenset({"mem://one"}))
    await until(lambda: len(server.listens) == 1)
    (wanted,) = (wanted for _, wanted in server.listens.values())
    assert wanted["resourceSubscriptions"] == ["mem://one"]
    assert wanted["toolsListChanged"] is True
    server.end_streams()
    await observer.until(lambda: "notifications/resources/updated" in observer.methods)
    assert "notifications/tools/list_changed" in observer.methods
    assert len(server.listens) == 1


async def test_an_upstream_that_does_not_serve_listening(
    connect: Open, server: HttpUpstream
) -> None:
    link = await connect("modern")
    server.lists_stay = True
    assert await link.subscriptions.watch_lists() is False
    with pytest.raises(UpstreamUnavailable, match="subscriptions/listen"):
        await link.subscriptions.set_resources(frozenset({"mem://one"}))


@pytest.mark.parametrize("lists", [False, True])
async def test_what_is_not_acknowledged_is_not_watched(
    connect: Open, server: HttpUpstream, lists: bool
) -> None:
    link = await connect("modern")
    server.honours = frozenset({"toolsListChanged"} if lists else ())
    if lists:
        assert await link.subscriptions.watch_lists()
    with pytest.raises(Refused, match="no updates of mem://one"):
        await link.subscriptions.set_resources(frozenset({"mem://one"}))
    await until(lambda: len(server.listens) == lists)


# --- legacy


async def test_the_session_is_ended_on_close(connect: Open, server: HttpUpstream) -> None:
    link = await connect("legacy")
    (session,) = server.sessions
    await link.close()
    assert server.deleted == [session]
    with pytest.raises(UpstreamUnavailable, match="closed"):
        await call(link, "echo")


async def test_an_expired_session_is_renewed_and_the_call_sent_again(
    connect: Open, server: HttpUpstream, observer: RecordingObserver
) -> None:
    link = await connect("legacy", {"sampling": {}})
    client = RecordingClient({"sampling": {}}, log_level="warning")
    await call(link, "log", client=client)
    await link.subscriptions.set_resources(frozenset({"mem://one"}))
    server.sessions.clear()
    server.script.subscribed.clear()
    answers = await asyncio.gather(*(call(link, "who", client=client) for _ in range(5)))
    (session,) = server.sessions
    assert {answer["structuredContent"]["session"] for answer in answers} == {session}
    assert server.sessions[session] == {"sampling": {}}
    assert observer.events == [Renewed("up", "")]
    await until(lambda: server.script.subscribed == {"mem://one"})
    levels = [m for _, m in server.requests if m.get("method") == "logging/setLevel"]
    assert [m["params"]["level"] for m in levels] == ["warning", "warning"]


async def test_a_wrong_call_is_no_expired_session(connect: Open, server: HttpUpstream) -> None:
    link = await connect("legacy")
    assert (await call(link, "nonesuch"))["error"]["code"] == -32602
    assert len(server.sessions) == 1


@pytest.mark.parametrize("tool", ["progress", "elicit"])
async def test_a_broken_stream_is_resumed(connect: Open, server: HttpUpstream, tool: str) -> None:
    server.offers_get = False
    server.stream = True
    link = await connect("legacy", {"elicitation": {}})
    server.drop_streams = 1
    answer = await call(link, "echo", b'{"text":"resumed"}')
    assert answer["content"][0]["text"] == "resumed"
    assert len(server.resumed) == 1


async def test_questions_on_the_get_stream(connect: Open, server: HttpUpstream) -> None:
    server.ask_on_get = True
    link = await connect("legacy", {"elicitation": {}})
    await asyncio.wait_for(server.get_opened.wait(), 10)
    client = RecordingClient({"elicitation": {}}, answers={"elicitation/create": {"action": "x"}})
    answer = await call(link, "elicit", client=client)
    assert answer["structuredContent"]["result"] == {"action": "x"}


async def test_others_ask_on_the_get_stream_beside_an_open_question(
    connect: Open, server: HttpUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says there whose it is: the first one waits, and asks nothing else."""
    monkeypatch.setattr(lane, "OPEN_S", 0.05)
    server.ask_on_get = True
    link = await connect("legacy", {"elicitation": {}})
    await asyncio.wait_for(server.get_opened.wait(), 10)
    clients = [
        RecordingClient({"elicitation": {}}, answers={"elicitation/create": {"of": number}})
        for number in range(2)
    ]
    clients[0].hold.clear()
    first = asyncio.create_task(call(link, "elicit", client=clients[0]))
    await asyncio.wait_for(clients[0].was_asked.wait(), 10)
    answers = [await call(link, "elicit", client=clients[1])]
    clients[0].hold.set()
    answers.append(await asyncio.wait_for(first, 10))
    assert [each["structuredContent"].get("result") for each in answers] == [{"of": 1}, {"of": 0}]


async def test_a_lost_get_stream_is_opened_again(
    connect: Open, server: HttpUpstream, observer: RecordingObserver
) -> None:
    await connect("legacy")
    await asyncio.wait_for(server.get_opened.wait(), 10)
    server.get_opened.clear()
    server.end_streams()
    await asyncio.wait_for(server.get_opened.wait(), 10)
    await server.announce("notifications/tools/list_changed")
    await observer.until(lambda: bool(observer.notified))


async def test_an_upstream_without_a_get_stream(connect: Open, server: HttpUpstream) -> None:
    server.offers_get = False
    link = await connect("legacy")
    assert (await call(link, "echo"))["isError"] is False


async def test_the_log_level_is_the_lowest_that_was_wanted(
    connect: Open, server: HttpUpstream
) -> None:
    link = await connect("legacy")
    for level in ("error", "info", "warning"):
        client = RecordingClient(log_level=level)
        await call(link, "log", client=client)
    sent = [m["params"]["level"] for _, m in server.requests if m["method"] == "logging/setLevel"]
    assert sent == ["error", "info"]
    assert [note["level"] for _, note in client.notes] == ["error"]


class Busy(Script):
    """Answers `logging/setLevel` once it is not busy any more."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[str] = []
        self.refuses = False
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    async def answer(self, message: Json, wire: Wire) -> Json | None:
        if message["method"] == "logging/setLevel":
            self.levels.append(message["params"]["level"])
            self.asked.set()
            await self.free.wait()
            if self.refuses:
                error = {"code": -32603, "message": "busy"}
                return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return await super().answer(message, wire)


async def test_a_log_level_is_set_again_whose_call_ended_meanwhile(
    connect: Open, server: HttpUpstream
) -> None:
    link = await connect("legacy")
    server.script = busy = Busy()
    client = RecordingClient(log_level="info")
    first = asyncio.create_task(call(link, "echo", client=client))
    await asyncio.wait_for(busy.asked.wait(), 10)
    first.cancel()
    await asyncio.wait([first], timeout=10)
    busy.free.set()
    for _ in range(2):
        await call(link, "echo", client=client)
    assert busy.levels == ["info", "info"]


async def test_an_upstream_that_does_not_answer_to_log_levels_is_used_all_the_same(
    connect: Open, server: HttpUpstream
) -> None:
    link = await connect("legacy", connect_timeout_s=600.0)
    server.script = busy = Busy()
    for level in ("info", "info", "debug", "error"):
        client = RecordingClient(log_level=level)
        assert (await call(link, "echo", client=client, timeout_s=30))["isError"] is False
    assert busy.levels == ["info", "debug"]


async def test_a_log_level_that_is_refused_late_is_asked_for_again(
    connect: Open, server: HttpUpstream
) -> None:
    link = await connect("legacy", connect_timeout_s=600.0)
    server.script = busy = Busy()
    busy.refuses = True
    client = RecordingClient(log_level="info")
    await call(link, "echo", client=client, timeout_s=30)
    busy.free.set()

    async def asked_again() -> None:
        while busy.levels != ["info", "info"]:
            await call(link, "echo", client=client)

    await asyncio.wait_for(asked_again(), 10)


async def test_a_connect_that_hangs_is_bounded(server: HttpUpstream) -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    hanging = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    spec = UpstreamSpec("up", url=f"http://127.0.0.1:{port}/mcp", connect_timeout_s=0.2)
    connector = Connector(spec, INFO)
    with pytest.raises(UpstreamTimeout):
        await asyncio.wait_for(connector.connect(Owner(ANONYMOUS), {}, RecordingObserver()), 30)
    await connector.close()
    await asyncio.wait_for(left.wait(), 30)
    hanging.close()
