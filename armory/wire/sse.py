"""Server-sent events: encoding messages, and writing streams of them.

Owns: the frames, the headers, and writing an `EventStream` out until it ends. Never imports a web
framework.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from armory.protocol.jsonrpc import Part
from armory.wire.messages import PIECE_BYTES, Data, parts_of, pieces
from armory.wire.streams import EventStream

PING = b": ping\n\n"
KEEPALIVE_S = 15.0
"""Seconds without a message after which `PING` is written."""
SSE_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
_EVENT = b"event: message\ndata: "
_END = b"\n\n"


def frame(data: bytes, event_id: str | None = None) -> bytes:
    """One message as a server-sent event."""
    return b"".join((_head(event_id), data, _END))


def frame_pieces(data: Data, event_id: str | None = None) -> Iterator[Part]:
    """As `frame`, a large message in pieces of itself."""
    if isinstance(data, bytes) and len(data) <= PIECE_BYTES:
        yield frame(data, event_id)
    else:
        yield from pieces((_head(event_id), *parts_of(data), _END))


def _head(event_id: str | None) -> bytes:
    return _EVENT if event_id is None else b"id: %b\n%b" % (event_id.encode(), _EVENT)


def priming(event_id: str) -> bytes:
    """An event without data that gives the client an id to resume from."""
    return b"id: %b\ndata: \n\n" % event_id.encode()


async def pump(
    write: Callable[[Part], Awaitable[None]],
    stream: EventStream,
    *,
    ids: bool,
    after: int | None = None,
    reader: int | None = None,
) -> None:
    """Write a stream's messages as events, and comments while it is silent, until it ends.

    Args:
        write: takes the events.
        stream: the messages.
        ids: whether the events have ids.
        after: position of the last message that is not wanted; None: those that nobody has read.
        reader: number of the stream's reader that this is; None: a new one.
    """
    reader = stream.attach(after) if reader is None else reader
    try:
        while True:
            try:
                found = await stream.next(reader, KEEPALIVE_S)
            except EOFError:
                return
            if found is None:
                await write(PING)
                continue
            position, data = found
            for piece in frame_pieces(data, stream.event_id(position) if ids else None):
                await write(piece)
            found = data = piece = b""  # nothing of it is held while the next is waited for
    finally:
        found = data = piece = b""  # nor by the trace of an error
        stream.detach(reader)
