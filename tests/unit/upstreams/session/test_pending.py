"""What waits for one call's client: in bounded memory, and never instead of the answer."""

from __future__ import annotations

import pytest
from msgspec import Raw

from armory.protocol.link import Call, Reply
from armory.testing.clients.recording import RecordingClient, RecordingObserver
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.pending import Note, Pending
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio
MIB = 1 << 20


def note(number: int, size: int = 1) -> Note:
    return Note("notifications/progress", {"message": Raw(b'"%d%b"' % (number, b"x" * size))})


def call() -> Pending:
    return Pending(1, Call("tools/call", {}), None)


async def test_notifications_of_many_bytes_are_dropped_oldest_first() -> None:
    pending = call()
    for number in range(100):
        pending.put(note(number, MIB))
    answer = Reply(result=Raw(b"{}"))
    pending.put(answer)
    found = [await pending.next() for _ in range(4)]
    assert [bytes(one.params["message"])[1:3] for one in found if type(one) is Note] == [
        b"97",
        b"98",
        b"99",
    ]
    assert found[-1] is answer


async def test_what_was_read_makes_room() -> None:
    pending = call()
    for number in range(100):
        pending.put(note(number, MIB))
        assert await pending.next() == note(number, MIB)


async def test_an_answer_stays_whatever_is_said_behind_it() -> None:
    pending = call()
    answer = Reply(result=Raw(b"{}"))
    pending.put(answer)
    for number in range(2_000):
        pending.put(note(number))
    assert await pending.next() is answer


async def test_what_is_logged_right_behind_an_answer_is_the_sessions() -> None:
    """Servers in Go write notifications beside answers, often behind them."""
    observer = RecordingObserver()
    link = StdioLink(LinkContext(UpstreamSpec("up", command="none"), {}, observer))
    link.adopt(Identity("legacy", "2025-11-25", {"logging": {}}))
    caller = RecordingClient(log_level="info")
    pending = link.requests.open(Call("tools/call", {}, client=caller))
    logged = (
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}'
    )
    for frame in (logged % 1, b'{"jsonrpc":"2.0","id":1,"result":{}}', logged % 2):
        link.received(frame)
    assert type(await pending.next()) is Note
    assert type(await pending.next()) is Reply
    assert [params["data"] for *_, params in observer.notified] == [2]
