"""Encodes messages, large ones in parts.

Owns: their encoding. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from armory.protocol.rawjson import encode

Part = bytes | memoryview
_PART_BYTES = 64 * 1024


class _Request(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int | str
    method: str
    params: Mapping[str, Raw]


class _Notification(msgspec.Struct, gc=False, omit_defaults=True):
    jsonrpc: str
    method: str
    params: Mapping[str, Raw] | None = None


def response(id: bytes, result: bytes | Raw) -> bytes:
    """A result response."""
    return b"".join(response_parts(id, (memoryview(result),)))


def response_parts(
    id: bytes, result: tuple[bytes | memoryview, ...]
) -> tuple[bytes | memoryview, ...]:
    """The same in parts: joining copies at memory speed, bytes formatting byte by byte."""
    return b'{"jsonrpc":"2.0","id":', id, b',"result":', *result, b"}"


def error_response(id: bytes, error: bytes | Raw) -> bytes:
    """An error response."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"error":', memoryview(error), b"}"))


def notification(method: str, params: Mapping[str, Raw] | None) -> bytes:
    """A notification; None: without `params`."""
    return encode(_Notification("2.0", method, params))


def request(id: int | str, method: str, params: Mapping[str, Raw]) -> bytes:
    """A request."""
    return encode(_Request("2.0", id, method, params))


class Parted:
    """A large message in parts; its length is the sum of theirs, in bytes.

    Args:
        parts: in order; nobody changes them any more.
        size: of all of them, in bytes.
    """

    __slots__ = ("_size", "parts")

    def __init__(self, parts: tuple[Part, ...], size: int) -> None:
        self.parts = parts
        self._size = size

    def __len__(self) -> int:
        return self._size


def request_in_parts(id: int | str, method: str, params: Mapping[str, Raw]) -> Parted:
    """As `request`; large members of `params` are parts of their own, small ones share a part."""
    parts: list[Part] = []
    short: list[Part] = [
        b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":{' % (encode(id), encode(method))
    ]
    size = 0
    separator = b""
    for name, raw in params.items():
        value = memoryview(raw)
        short.append(b"%b%b:" % (separator, encode(name)))
        separator = b","
        if len(value) >= _PART_BYTES:
            parts += (b"".join(short), value)
            short, size = [], 0
            continue
        short.append(value)
        size += len(value)
        if size >= _PART_BYTES:
            parts.append(b"".join(short))
            short, size = [], 0
    parts.append(b"".join((*short, b"}}")))
    return Parted(tuple(parts), sum(map(len, parts)))
