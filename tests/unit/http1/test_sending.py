"""Large bodies of requests: given to the kernel piece by piece, and never copied before."""

import asyncio
from collections.abc import Sequence

import pytest

from armory.http1.connection import Connection
from armory.http1.deadlines import Deadlines
from armory.http1.sending import SENT_AT_ONCE
from armory.protocol.jsonrpc import Parted
from tests.unit.http1.peer import OK, peer

pytestmark = pytest.mark.anyio
BODY = bytes(range(256)) * 16_000
PARTS = (b"{", memoryview(BODY)[:3_000_000], b",", memoryview(BODY)[3_000_000:])
IN_PARTS = Parted(PARTS, sum(map(len, PARTS)))


class Written(asyncio.Transport):
    """A socket that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes | memoryview] = []
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data) if isinstance(data, bytearray) else data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def opened() -> tuple[Connection, Written, list[Connection]]:
    free: list[Connection] = []
    made = Connection(("http", "a", 80), Deadlines(), on_free=free.append, on_closed=lambda _: None)
    transport = Written()
    made.connection_made(transport)
    return made, transport, free


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def joined(parts: Sequence[bytes | memoryview]) -> bytes:
    return b"".join(parts)


@pytest.mark.parametrize("body", [BODY, IN_PARTS], ids=["whole", "in parts"])
async def test_a_large_body_is_written_in_pieces_one_a_turn(body: bytes | Parted) -> None:
    connection, transport, _ = opened()
    connection.send(b"head", body, None)
    assert len(joined(transport.writes)) <= len(b"head") + SENT_AT_ONCE
    for _ in range(20):
        before = len(joined(transport.writes))
        await turns(1)
        assert len(joined(transport.writes)) - before <= SENT_AT_ONCE
    whole = body if isinstance(body, bytes) else joined(body.parts)
    assert joined(transport.writes) == b"head" + whole


async def test_a_large_body_waits_while_the_other_side_does_not_read() -> None:
    connection, transport, _ = opened()
    connection.send(b"", BODY, None)
    connection.pause_writing()
    await turns(3)
    held = len(joined(transport.writes))
    assert held <= 2 * SENT_AT_ONCE
    await turns(20)
    assert len(joined(transport.writes)) == held
    connection.resume_writing()
    await turns(20)
    assert joined(transport.writes) == BODY


async def test_an_answer_before_all_was_sent_costs_the_connection() -> None:
    connection, transport, free = opened()
    response = connection.send(b"", BODY, None)
    connection.pause_writing()
    connection.get_buffer(-1)[: len(OK)] = OK
    connection.buffer_updated(len(OK))
    assert await response.read() == b"{}"
    assert transport.aborted
    assert not free


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)
@pytest.mark.parametrize("body", [BODY, IN_PARTS], ids=["whole", "in parts"])
async def test_a_large_body_arrives_and_the_connection_serves_on(body: bytes | Parted) -> None:
    async with peer(OK, OK) as (other, connections):
        for sent in (body, b"small"):
            response = await connections.request("POST", other.url, {}, sent, 30)
            assert await response.read() == b"{}"
    assert other.connections == 1
    assert b"Content-Length: %d\r\n" % len(body) in other.heads[0]
