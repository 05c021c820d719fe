"""The exceptions that stand for JSON-RPC errors.

Owns: `RpcError`, with the one for methods that are not there, and `Malformed`. Never imports
anything of Armory but the codes.
"""

from __future__ import annotations

from typing import Any

from armory.protocol.codes import METHOD_NOT_FOUND


class RpcError(Exception):
    """A JSON-RPC error that answers the request.

    Attributes:
        code, message: as on the wire.
        data: a JSON-serialisable value, or None for no `data` member.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def method_not_found(method: str) -> RpcError:
    """The error for a method that does not exist, or not for this caller."""
    return RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")


class Malformed(Exception):
    """Bytes that are no JSON-RPC message.

    Attributes:
        code: -32700 (no JSON) or -32600 (JSON, but no message).
        message: what is wrong, for the client.
        id: the id to answer with; `null` when none could be read.
    """

    def __init__(self, code: int, message: str, id: bytes = b"null") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
