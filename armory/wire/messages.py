"""Decodes requests and encodes replies, one level deep.

Owns: `params` and `_meta` of a request that came, a large one's in steps, and the message that
answers it: a large one in the parts that it came in, so that nothing of it is held twice. Never
imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from msgspec import Raw

from armory.protocol import codes, jsonrpc
from armory.protocol.errors import Malformed
from armory.protocol.jsonrpc import Message, Part, Parted
from armory.protocol.link import CancelReason, Reply
from armory.protocol.rawjson import members_or_none, opening_or_none, says_nothing
from armory.protocol.scanning.taking_apart import MOST_MEMBERS
from armory.tasks import step_by_step

PIECE_BYTES = 1 << 20
"""Messages up to this size are copied into one piece: one write costs less than several. Larger
ones are written piece by piece as the client reads.
"""
AT_ONCE_BYTES = 64 * 1024
"""Messages up to this size are taken apart in one go."""

Data = bytes | Parted
"""A message as it goes on the wire."""


def parts_of(data: Data) -> tuple[Part, ...]:
    """The parts of a message, one where it is whole."""
    return data.parts if isinstance(data, Parted) else (data,)


def whole(data: Data) -> bytes:
    """A message as one piece."""
    return b"".join(data.parts) if isinstance(data, Parted) else data


def pieces(parts: Sequence[Part]) -> Iterator[Part]:
    """Parts in pieces of at most `PIECE_BYTES`, without copying."""
    for part in parts:
        view = memoryview(part)
        for begin in range(0, len(view), PIECE_BYTES):
            yield view[begin : begin + PIECE_BYTES]


Parameters = tuple[dict[str, Raw], dict[str, Raw] | None]
"""The members of `params` and of `_meta`; None: there is none, or none that can be opened."""


def taken_apart(body: bytes | Raw) -> tuple[Message, Parameters]:
    """A message of at most `AT_ONCE_BYTES`, and the parameters of a request.

    Raises:
        Malformed: it is none, or its params are no object.
    """
    message = jsonrpc.decode(body)
    if not message.is_request:
        return message, ({}, None)
    params = jsonrpc.params_of(message)
    return message, (params, members_or_none(params.get("_meta")))


async def taken_apart_in_steps(
    body: bytes | Raw, refuse: Callable[[Message], None]
) -> tuple[Message, Parameters]:
    """The same for any size; a large one in several turns of the event loop, since each pass over a
    megabyte takes almost a millisecond.

    Args:
        body: the message.
        refuse: is given a large one, and raises where its method takes nothing as large.

    Raises:
        Malformed: it is none, or its params are no object; what `refuse` raises.
    """
    if len(memoryview(body)) <= AT_ONCE_BYTES:
        return taken_apart(body)
    message = await step_by_step(jsonrpc.decoding(body))
    refuse(message)
    await asyncio.sleep(0)
    if not message.is_request:
        return message, ({}, None)
    params = await step_by_step(jsonrpc.opening_params(message))
    meta = await step_by_step(opening_or_none(params.get("_meta")))
    await asyncio.sleep(0)
    return message, (params, meta)


def opened(
    message: Message, known: Parameters | None = None
) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """(params, `_meta`) of a request, which may be decoded already.

    Raises:
        Malformed: one of them is no object.
    """
    if known is None:
        params = jsonrpc.params_of(message)
        meta = members_or_none(params.get("_meta"))
    else:
        params, meta = known
    if meta is not None:
        return params, meta
    if "_meta" not in params or says_nothing(params["_meta"]):
        return params, {}
    said = f"params._meta is no object, or one of more than {MOST_MEMBERS:,} members"
    raise Malformed(codes.INVALID_PARAMS, said, message.key)


def notified(message: Message) -> dict[str, Raw]:
    """The parameters of a notification; empty where `params` is no object."""
    try:
        return jsonrpc.params_of(message)
    except Malformed:
        return {}


def cancelled(message: Message) -> tuple[bytes, CancelReason | None]:
    """The request id in a `notifications/cancelled`, and the reason; empty where it names none."""
    params = notified(message)
    id = params.get("requestId")
    return b"" if id is None else bytes(memoryview(id)), CancelReason.of(params)


def answer_parts(id: bytes, reply: Reply) -> tuple[Part, ...]:
    """A reply as the response to request `id`, in parts."""
    if reply.error is not None:
        return (jsonrpc.error_response(id, reply.error),)
    return jsonrpc.response_parts(id, reply.parts)


def encoded(id: bytes, reply: Reply) -> Data:
    """A reply as the response to request `id`."""
    parts = answer_parts(id, reply)
    size = sum(map(len, parts))
    return b"".join(parts) if size <= PIECE_BYTES else Parted(parts, size)


def refused(id: bytes, code: int, message: str) -> bytes:
    """The error response to request `id`."""
    return jsonrpc.error_response(id, jsonrpc.error(code, message))
