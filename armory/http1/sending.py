"""Request bodies, and sending large ones in pieces.

Owns: `Body`, `whole`, `pieces`. Never imports the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

SENT_AT_ONCE = 256 * 1024
"""How much of a body the kernel is given at a time: 0.1 ms."""


class InParts(Protocol):
    """A large body in parts; `len()` is the total in bytes."""

    @property
    def parts(self) -> Sequence[bytes | memoryview]:
        """The parts, in order; they must not be changed any more."""
        ...

    def __len__(self) -> int: ...


Body = bytes | InParts


def whole(body: Body | None) -> bytes | None:
    """A body as bytes."""
    return body if body is None or isinstance(body, bytes) else b"".join(body.parts)


def pieces(body: Body) -> list[memoryview]:
    """A body in pieces of at most `SENT_AT_ONCE`, the last one first; no bytes are copied."""
    made: list[memoryview] = []
    for part in (body,) if isinstance(body, bytes) else body.parts:
        view = memoryview(part)
        made += (view[at : at + SENT_AT_ONCE] for at in range(0, len(view), SENT_AT_ONCE))
    made.reverse()
    return made
