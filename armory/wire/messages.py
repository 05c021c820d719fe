"""A request taken apart and a reply put together, one level deep.

Owns: `params` and `_meta` of a request that came, and the message that answers it. Never imports a
transport.
"""

from __future__ import annotations

from msgspec import Raw

from armory.protocol import codes, jsonrpc
from armory.protocol.errors import Malformed
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Reply
from armory.protocol.rawjson import members_or_none


def opened(
    message: Message, params: dict[str, Raw] | None = None
) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """(params, `_meta`) of a request; its params may be known already.

    Raises:
        Malformed: one of them is no object.
    """
    if params is None:
        params = jsonrpc.params_of(message)
    if "_meta" not in params:
        return params, {}
    meta = members_or_none(params["_meta"])
    if meta is None:
        raise Malformed(codes.INVALID_PARAMS, "params._meta is not an object", message.key)
    return params, meta


def cancelled_id(message: Message) -> bytes | None:
    """The request that a `notifications/cancelled` names; None where it names none."""
    try:
        id = jsonrpc.params_of(message).get("requestId")
    except Malformed:
        return None
    return None if id is None else bytes(memoryview(id))


def encoded(id: bytes, reply: Reply) -> bytes:
    """A reply as the message that answers request `id`."""
    if reply.error is not None:
        return jsonrpc.error_response(id, reply.error)
    return b"".join(jsonrpc.response_parts(id, reply.parts))


def refused(id: bytes, code: int, message: str) -> bytes:
    """The message that answers request `id` with an error."""
    return jsonrpc.error_response(id, jsonrpc.error(code, message))
