"""Streams at upstreams for clients that follow tasks: how many, and what becomes of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.gateway.changes import task_streams
from armory.gateway.changes.task_streams import TaskStreams
from armory.gateway.endpoint import ALL
from armory.gateway.subscription import Subscription
from armory.protocol.link import Call, ClientChannel, ClientGone, Owner, Params, Reply
from armory.protocol.methods import ACKNOWLEDGED, TASK
from armory.protocol.versions import Era
from armory.testing.front import ScriptedPool, ScriptedUpstream, plain, raws, refused, result
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


class Upstream:
    """Acknowledges what it is asked to report, or what it would rather say."""

    def __init__(self, era: Era = "modern") -> None:
        self.acknowledges: Any = ...
        self.states: dict[str, Reply | Exception] = {}
        self.clients: list[ClientChannel] = []
        self.over = asyncio.Event()
        self.pool = ScriptedPool({"up": ScriptedUpstream(ServerLists(), self.answer, era)})

    async def answer(self, call: Call, owner: Owner) -> Reply:
        del owner
        if call.method == "tasks/get":
            state = self.states[plain(call.params)["taskId"]]
            if isinstance(state, Exception):
                raise state
            return state
        assert call.client is not None
        said = call.params if self.acknowledges is ... else self.acknowledges
        if said is not None:
            await call.client.notify(ACKNOWLEDGED, said)
            self.clients.append(call.client)
        await self.over.wait()
        raise UpstreamUnavailable("gone", upstream="up")

    def end_streams(self) -> None:
        over, self.over = self.over, asyncio.Event()
        over.set()


class Client:
    """What a client was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.subscription = Subscription(ANONYMOUS, ALL, self._deliver)
        self.may = True

    def _deliver(self, method: str, params: Params) -> None:
        assert method == TASK
        self.told.append(plain(params))

    def streams(self, upstream: Upstream) -> TaskStreams:
        return TaskStreams(upstream.pool, lambda _subscription, _server: self.may)


async def test_a_person_has_so_many_and_all_have_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream, client = Upstream(), Client()
    streams = client.streams(upstream)
    monkeypatch.setattr(task_streams, "MOST_OF_ONE", 2)
    honoured = [await streams.follow(client.subscription, "up", ["a"], {}) for _ in range(3)]
    assert honoured == [{"a"}, {"a"}, set()]
    assert len(streams) == 2
    monkeypatch.setattr(task_streams, "MOST_OF_ONE", 9)
    monkeypatch.setattr(task_streams, "MOST", 2)
    assert await streams.follow(client.subscription, "up", ["a"], {}) == set()
    await streams.leave(client.subscription)
    assert await streams.follow(client.subscription, "up", ["a"], {}) == {"a"}
    await streams.leave(Client().subscription)
    assert len(streams) == 1
    await streams.close()
    assert len(streams) == 0


async def test_an_upstream_with_sessions_is_not_asked() -> None:
    upstream, client = Upstream("legacy"), Client()
    streams = client.streams(upstream)
    assert await streams.follow(client.subscription, "up", ["a"], {}) == {"a"}
    assert (len(streams), upstream.pool.calls) == (0, [])


@pytest.mark.parametrize("said", [{}, {"notifications": {}}, {"notifications": {"taskIds": 3}}])
async def test_what_is_not_acknowledged_is_not_honoured(said: Any) -> None:
    upstream, client = Upstream(), Client()
    upstream.acknowledges = raws(said)
    streams = client.streams(upstream)
    assert await streams.follow(client.subscription, "up", ["a"], {}) == set()
    assert len(streams) == 0


async def test_silence_honours_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream, client = Upstream(), Client()
    upstream.acknowledges = None
    streams = client.streams(upstream)
    monkeypatch.setattr(task_streams, "_ACK_S", 0.01)
    assert await streams.follow(client.subscription, "up", ["a"], {}) == set()
    monkeypatch.undo()
    ending = asyncio.create_task(streams.follow(client.subscription, "up", ["a"], {}))
    await until(lambda: len(upstream.pool.calls) == 2)
    upstream.end_streams()
    assert await ending == set()
    assert len(streams) == 0


async def test_only_what_was_asked_for_and_may_be_seen_is_told() -> None:
    upstream, client = Upstream(), Client()
    streams = client.streams(upstream)
    await streams.follow(client.subscription, "up", ["a", "b"], {})
    (stream,) = upstream.clients
    for said in ({"taskId": "c"}, {"status": "working"}, {"taskId": "a", "status": "working"}):
        await stream.notify(TASK, raws(said))
    await stream.notify("notifications/message", raws({"taskId": "a"}))
    assert client.told == [{"taskId": "up:a", "status": "working"}]
    client.may = False
    await stream.notify(TASK, raws({"taskId": "b", "status": "cancelled"}))
    assert len(client.told) == 1
    with pytest.raises(ClientGone):
        await stream.ask("elicitation/create", {})
    await streams.close()


async def test_a_stream_that_ends_is_opened_anew_until_all_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_streams, "_RETRY_S", (0.0,))
    upstream, client = Upstream(), Client()
    streams = client.streams(upstream)
    await streams.follow(client.subscription, "up", ["a", "b", "c"], {})
    upstream.states = {
        "a": result({"resultType": "complete", "taskId": "a", "status": "completed", "_meta": {}}),
        "b": refused(-32602, "no such task"),
        "c": UpstreamUnavailable("away", upstream="up"),
    }
    upstream.end_streams()
    await until(lambda: len(upstream.clients) == 2 and len(client.told) == 1)
    assert client.told == [{"taskId": "up:a", "status": "completed"}]
    monkeypatch.setattr(task_streams, "_LASTING_S", 0.0)
    upstream.states["c"] = result({"taskId": "c", "status": "cancelled"})
    upstream.end_streams()
    await until(lambda: len(client.told) == 2)
    asked = [
        plain(call.params) for _, _, call in upstream.pool.calls if "taskId" not in call.params
    ]
    assert [one["notifications"]["taskIds"] for one in asked] == [
        ["a", "b", "c"],
        ["a", "b", "c"],
        ["c"],
    ]
    await until(lambda: len(streams) == 0)  # all are over, and nobody listens for them
    await streams.close()


async def test_who_leaves_before_the_answer_leaves_no_stream() -> None:
    upstream, client = Upstream(), Client()
    upstream.acknowledges = None
    streams = client.streams(upstream)
    following = asyncio.create_task(streams.follow(client.subscription, "up", ["a"], {}))
    await until(lambda: len(upstream.pool.calls) == 1)
    following.cancel()
    await asyncio.wait([following])
    assert (following.cancelled(), len(streams)) == (True, 0)
