"""Detecting that callers' processes are of a newer release than the gateway's own process.

Owns: `Releases`, pure. Never opens a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Releases:
    """The releases that the processes of one upstream report (`serverInfo`).

    `npx NAME@latest` may start another release each time. Calls go to it then, and the gateway's
    own process, which is older, would go on listing the tools of the one before.
    """

    def __init__(self) -> None:
        self._awaited: Mapping[str, Any] | None = None
        self._steady = True

    def own_started(self, info: Mapping[str, Any]) -> None:
        """The gateway's own process has started. If it is still not the release that it was
        restarted for, the versions mean nothing (each process reports another one).
        """
        if self._awaited is not None and self._awaited != info:
            self._steady = False
        self._awaited = None

    def outdated(self, own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether the gateway's own process must be restarted, because a process that started later
        is of another release. True once for each release.
        """
        if own == other or not self._steady or self._awaited is not None:
            return False
        self._awaited = other
        return True
