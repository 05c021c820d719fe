"""Memory of messages that sessions keep for resumption, over all sessions.

Owns: `KeptBytes`, and the choice of the session that keeps nothing any more. Never imports a
transport.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

MOST_BYTES = 64 << 20


class Keeping(Protocol):
    """A session.

    Attributes:
        person: as whose it is counted.
    """

    person: str

    def forget(self) -> None:
        """Drop everything that is kept for resumption."""
        ...


class KeptBytes:
    """Counts the bytes that sessions keep of ended streams and of their general ones.

    Attributes:
        held: bytes now.
    """

    def __init__(self) -> None:
        self.held = 0
        self._by_session: dict[Keeping, int] = {}  # who has kept nothing new for longest first
        self._by_person: Counter[str] = Counter()

    def keeps(self, session: Keeping, size: int) -> None:
        """A session keeps `size` bytes by now. If all together keep too much, then of the person
        that keeps most, the session without new messages for longest drops its own.
        """
        self._note(session, size)
        while self.held > MOST_BYTES:
            person = self._by_person.most_common(1)[0][0]
            oldest = next(one for one in self._by_session if one.person == person)
            oldest.forget()
            self._note(oldest, 0)

    def _note(self, session: Keeping, size: int) -> None:
        more = size - self._by_session.pop(session, 0)
        self.held += more
        self._by_person[session.person] += more
        if size:
            self._by_session[session] = size
        if not self._by_person[session.person]:
            del self._by_person[session.person]
