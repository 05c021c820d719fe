"""A person's login at an upstream is lost while a session of theirs is open there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal

import msgspec
import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from armory.domain.principal import Principal
from armory.errors import LoginNeeded
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.recording import RecordingClient
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import Login
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

ANN = Owner(Principal("ann", user="ann"))
LOST = {
    "upstream_log_level_unsent",
    "upstream_notify_failed",
    "upstream_answer_unsent",
    "task_failed",
}


class Kept:
    """The login of one person, in memory."""

    def __init__(self, url: str) -> None:
        login = Login("http://issuer", "http://issuer/token", url, "client", access_token="t")
        self.login: bytes | None = msgspec.json.encode(login)

    async def load(self) -> bytes | None:
        return self.login

    async def save(self, login: bytes | None) -> None:
        self.login = login

    async def replace(self, login: bytes, same: Callable[[bytes], bool]) -> bool:
        del same
        self.login = login
        return True

    async def lease(self) -> bool:
        return True

    async def release(self) -> None:
        pass


class Bench:
    """A pool with one upstream, at which one person is logged in."""

    def __init__(self, server: HttpUpstream, transport: Literal["streamable-http", "sse"]) -> None:
        url = {"streamable-http": server.url, "sse": server.sse_url}[transport]
        grant = AuthorizationCode(per="principal")
        spec = UpstreamSpec("up", url=url, transport=transport, auth=grant)
        self.server = server
        self.kept = Kept(url)
        self.pool = Pool([spec], vault=lambda _person, _server: self.kept)
        server.tokens = {"t"}

    def log_out(self) -> None:
        self.kept.login, self.server.tokens = None, set()


@pytest.fixture
def transport() -> Literal["streamable-http", "sse"]:
    return "sse"


@pytest.fixture
async def bench(transport: Literal["streamable-http", "sse"]) -> AsyncIterator[Bench]:
    async with HttpUpstream(eras="legacy") as server:
        bench = Bench(server, transport)
        yield bench
        await bench.pool.close()


def calling(pool: Pool, tool: str, client: RecordingClient | None = None) -> asyncio.Task[Reply]:
    """A call in a task of its own, as every request of a client's has one."""
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b"{}")}
    asked = Call("tools/call", params, client=client or RecordingClient(), name_header=tool)
    return asyncio.create_task(pool.request("up", ANN, asked))


def told(logs: list[Any]) -> Callable[[], bool]:
    return lambda: any(event["event"] in LOST for event in logs)


def failures(logs: list[Any]) -> list[Mapping[str, Any]]:
    return [event for event in logs if event["event"] == "task_failed"]


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_a_log_level_that_cannot_be_told_is_no_defect(bench: Bench) -> None:
    assert (await calling(bench.pool, "echo")).error is None
    bench.log_out()
    with capture_logs() as logs:
        bench.pool.log_level_changed(ANN, "debug")
        await until(told(logs))
    assert not failures(logs)


async def test_a_cancellation_that_cannot_be_told_is_no_defect(bench: Bench) -> None:
    call = calling(bench.pool, "hang")
    received = bench.server.script.received
    await until(lambda: any(message["method"] == "tools/call" for message in received))
    bench.log_out()
    with capture_logs() as logs:
        call.cancel()
        await until(told(logs))
    assert not failures(logs)


async def test_an_answer_that_cannot_be_told_is_no_defect(bench: Bench) -> None:
    client = RecordingClient({"elicitation": {}}, answers={"elicitation/create": {}})
    client.hold.clear()
    call = calling(bench.pool, "elicit", client)
    await asyncio.wait_for(client.was_asked.wait(), 10)
    bench.log_out()
    with capture_logs() as logs:
        client.hold.set()
        await until(told(logs))
    assert not failures(logs)
    call.cancel()


@pytest.mark.parametrize("transport", ["streamable-http"])
async def test_a_call_that_is_turned_away_is_not_cancelled_too(bench: Bench) -> None:
    assert (await calling(bench.pool, "echo")).error is None
    bench.log_out()
    bench.server.carried.clear()
    with pytest.raises(LoginNeeded):
        await calling(bench.pool, "echo")
    bench.kept.login, bench.server.tokens = Kept(bench.server.url).login, {"t"}
    assert (await calling(bench.pool, "echo")).error is None
    assert [method for method, _ in bench.server.carried] == ["POST", "POST"]
