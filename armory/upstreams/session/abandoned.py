"""Calls that were given up unanswered, because of which their upstream may still ask something.

Owns: `AbandonedCalls`. Never imports a transport.
"""

from __future__ import annotations

_KEPT = 1_000


class AbandonedCalls:
    """Calls of one session that were given up, by whose they are.

    An upstream that heeds a cancellation answers nothing, one that ignores it may ask at any time:
    which it is cannot be told, so a call counts until its answer comes after all, or the session
    ends. Beyond a thousand, only whose they are is kept.
    """

    def __init__(self) -> None:
        self._calls: dict[int, str] = {}
        self._callers: set[str] = set()

    def add(self, request_id: int, caller: str) -> None:
        """A call ended unanswered.

        Args:
            request_id: its id.
            caller: key of the principal whose it was.
        """
        if len(self._calls) < _KEPT:
            self._calls[request_id] = caller
        else:
            self._callers.add(caller)

    def answered(self, request_id: object) -> bool:
        """An answer came after all: that call asks no more; whether it was one of these."""
        return isinstance(request_id, int) and self._calls.pop(request_id, None) is not None

    def of_others(self, caller: str) -> bool:
        """Whether any is of another principal than `caller`."""
        return any(one != caller for one in (*self._callers, *self._calls.values()))
