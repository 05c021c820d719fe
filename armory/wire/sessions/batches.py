"""Limits of batches: messages of one, bytes of the answers to one and to all.

Owns: `Batches`, `BatchBytes` and `OneBatch`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from armory.wire.sessions.turns import OneATurn

AT_ONCE = 4
"""How many full batches may be held at a time."""


class OneBatch:
    """Counts the bytes of one batch's answers.

    Attributes:
        held: bytes.
    """

    def __init__(self, all: BatchBytes) -> None:
        self.held = 0
        self._all = all
        self._over = False

    @property
    def full(self) -> str:
        """Why no more of it is served; "": there is room."""
        return self._lacking(0)

    def take(self, size: int) -> str:
        """Count `size` more bytes; returns "", or why that exceeds a limit."""
        why = self._lacking(size)
        if not why and not self._over:
            self.held += size
            self._all.held += size
        return why

    def end(self) -> None:
        """Its answers were sent, or nobody waits for them."""
        self._over = True
        self._all.held -= self.held
        self.held = 0

    def _lacking(self, size: int) -> str:
        needed = max(size, 1)  # no answer is empty
        if self.held + needed > self._all.each:
            return (
                "the answers before this one fill what a batch may be answered "
                "(server.limits.batch_answer_bytes); send it by itself"
            )
        if self._all.held + needed > self._all.most:
            return (
                f"the answers to batches under way fill what {AT_ONCE} of them may be answered "
                "(server.limits.batch_answer_bytes); send it by itself, or later"
            )
        return ""


class BatchBytes:
    """Counts the bytes of the answers to all batches that are not sent yet.

    Args:
        each: most of one batch.

    Attributes:
        each: most of one batch.
        most: most of all.
        held: bytes now.
    """

    def __init__(self, each: int) -> None:
        self.each = each
        self.most = AT_ONCE * each
        self.held = 0

    @contextmanager
    def batch(self) -> Generator[OneBatch]:
        """Count one batch while it is served."""
        one = OneBatch(self)
        try:
            yield one
        finally:
            one.end()


class Batches:
    """The limits of all batches together, over every transport.

    Args:
        items: most messages of one.
        answer_bytes: most bytes of what one is answered.

    Attributes:
        items: most messages of one.
        bytes: what their answers hold.
        turns: in which their requests begin.
    """

    def __init__(self, items: int, answer_bytes: int) -> None:
        self.items = items
        self.bytes = BatchBytes(answer_bytes)
        self.turns = OneATurn()
