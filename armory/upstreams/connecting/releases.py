"""Whether the gateway's own process is of the release that callers' processes are.

Owns: `Releases`, pure. Never opens a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Releases:
    """What the processes of one upstream say they are.

    `npx NAME@latest` may start another release each time. Calls go to it then, and the gateway's
    own process, which is older, would go on listing the tools of the one before.
    """

    def __init__(self) -> None:
        self._awaited: Mapping[str, Any] | None = None
        self._steady = True

    def own_started(self, info: Mapping[str, Any]) -> None:
        """The gateway's own process began: where it is not what it was started anew for, each says
        something else, which means nothing.
        """
        if self._awaited is not None and self._awaited != info:
            self._steady = False
        self._awaited = None

    def outdated(self, own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether the gateway's own process has to be started anew, since another one, which was
        started later, is of another release; says so once.
        """
        if own == other or not self._steady or self._awaited is not None:
            return False
        self._awaited = other
        return True
