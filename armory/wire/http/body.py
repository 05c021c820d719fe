"""Reads message bodies, refusing them at the first bytes that break a rule.

Owns: `BodyReader`, and the share of the event loop that looking through large bodies may take. It
opens nothing of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from armory.protocol import bodies, jsonrpc
from armory.protocol.scanning.nesting import PIECE_BYTES

SHARE = 0.2
"""Share of the event loop that checking all bodies of more than one piece may take."""
_JOINED_APART_BYTES = 1 << 20
"""From this size on bytes are joined in a thread: the interpreter lets go of its lock meanwhile, 2
to 9 ms for 4 MiB.
"""
_COUNTED_BYTES = 8 * 1024
"""Bodies from this size on count how much of them has arrived."""
_Look = Callable[[bytes], Awaitable[None]]


def _refuse_none(_head: bytes, _size: int) -> None:
    """Accepts every beginning."""


class BodyReader:
    """Reads bodies of messages.

    Args:
        most_bytes: larger ones are not read to their end.
        depth: levels that they may be nested.
        begins: is given the first bytes of one of more than a piece, and how many it will have, as
            far as its sender says, and refuses it by them (`Malformed`).
    """

    def __init__(
        self, most_bytes: int, depth: int, begins: Callable[[bytes, int], None] = _refuse_none
    ) -> None:
        self._most_bytes = most_bytes
        self._depth = depth
        self._begins = begins
        self._at_once_bytes = min(PIECE_BYTES, most_bytes)
        self._turn = asyncio.Lock()  # large ones are looked through one after another

    def arrived(self, request: web.Request) -> bytes | None:
        """The body, if all of it has arrived and is small enough to check at once, as nearly all
        are; None: it has to be read.

        Raises:
            Malformed: it is nested too deep.
        """
        content = request.content
        if not content.is_eof() or content.total_bytes > self._at_once_bytes:
            return None
        body = content.read_nowait()
        bodies.check_depth(body, self._depth)
        if len(body) > _COUNTED_BYTES:
            _understood(request)
        return body

    async def read(self, request: web.Request) -> bytes | None:
        """Read the body and check its nesting; None when it is too large.

        Raises:
            Malformed: it is nested too deep, or begins as none may; the rest has not been read.
            ConnectionResetError: the connection ended meanwhile.
        """
        size = request.content_length or 0
        body = await read_body(request, self._most_bytes, partial(self._looking, size))
        if body is not None and len(body) <= PIECE_BYTES:
            bodies.check_depth(body, self._depth)
        if body is None or len(body) > _COUNTED_BYTES:
            _understood(request)
        return body

    def _looking(self, size: int) -> _Look:
        check = bodies.DepthCheck(self._depth)
        head = b""

        async def look(part: bytes) -> None:
            nonlocal head
            if len(head) < jsonrpc.BEGINNING_BYTES:
                head += part[: jsonrpc.BEGINNING_BYTES - len(head)]
                self._begins(head, size)
            async with self._turn:
                begun = time.perf_counter()
                for _ in check.feed(part):
                    took = time.perf_counter() - begun
                    await asyncio.sleep(took * (1 - SHARE) / SHARE)
                    begun = time.perf_counter()

        return look


async def read_body(
    request: web.Request, limit: int, looking: Callable[[], _Look] | None = None
) -> bytes | None:
    """Read the body; None when it is larger than `limit` bytes.

    Args:
        request: whose.
        limit: bytes.
        looking: makes what looks at a body of more than one piece, part by part as it arrives.

    Raises:
        ConnectionResetError: the connection ended meanwhile.
    """
    length = request.content_length
    if length is not None and length > limit:
        return None
    content = request.content
    first = await content.readany()
    whole = content.at_eof()
    if whole and (looking is None or len(first) <= PIECE_BYTES):
        return first if len(first) <= limit else None
    look: _Look | None = None
    parts: list[bytes] = []
    size, seen, part = 0, 0, first
    while part:
        parts.append(part)
        size += len(part)
        if size > limit:
            return None
        if looking is not None and size > PIECE_BYTES:
            look = look or looking()
            for one in parts[seen:]:
                await look(one)
            seen = len(parts)
        if whole:
            break
        await asyncio.sleep(0)  # the next part may be there already, above all of a packed body
        if request.transport is None:  # aiohttp would take it for a defect
            raise ConnectionResetError("the connection ended within the body of a request")
        part = await content.readany()
    if size > _JOINED_APART_BYTES:
        return await asyncio.to_thread(b"".join, parts)
    return b"".join(parts)


def _understood(request: web.Request) -> None:
    """Report to the connection, if it counts incoming data, that a body was checked."""
    understood = getattr(request.protocol, "understood", None)
    if understood is not None:
        understood()
