"""What batches may take: messages of one, bytes of the answers to one and to all of them together.

Owns: `Batches`, `BatchBytes` and `OneBatch`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from armory.wire.sessions.turns import OneATurn

AT_ONCE = 4
"""How many full batches may be held at a time."""


class OneBatch:
    """The bytes that one batch's answers hold.

    Attributes:
        held: bytes.
    """

    def __init__(self, all: BatchBytes) -> None:
        self.held = 0
        self._all = all
        self._over = False

    @property
    def full(self) -> str:
        """Why nothing more is served for it; empty: there is room."""
        return self._lacking(0)

    def take(self, size: int) -> str:
        """Hold so many bytes more; "", or why that cannot be."""
        why = self._lacking(size)
        if not why and not self._over:
            self.held += size
            self._all.held += size
        return why

    def end(self) -> None:
        """Its answers are handed over, or nobody waits for them."""
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
    """The bytes that the answers to all batches hold before they are written.

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
        """One batch, while it is served."""
        one = OneBatch(self)
        try:
            yield one
        finally:
            one.end()


class Batches:
    """What holds for all batches together, whichever way they come.

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
