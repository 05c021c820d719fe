"""The state of one upstream: whether it can be called, since when, and why not.

Owns: `UpstreamStatus`, its transitions, and what the log says of them: of each kind of failure once
at full volume; `PoolStatus`, what is under way there. Never connects anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from armory.domain.catalog import Dropped, ServerLists
from armory.logger import Logger
from armory.observability.redaction import redacted
from armory.protocol.versions import Era
from armory.upstreams import breaker
from armory.upstreams.clock import Clock
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.link_slot import SessionCounts
from armory.upstreams.session.base import BaseLink

log = Logger(__name__)

State = Literal["connecting", "ready", "down", "login_required"]

_SHOWN_LINES = 10
_LOGGED_KINDS = 50
"""Kinds of failure of one upstream that are remembered: each is logged as a warning once."""
_NUMBERS = re.compile(r"0x[0-9a-f]{1,16}|\d{1,20}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    """One upstream as its owner task sees it.

    Attributes:
        state: `connecting` before the first answer, `ready`, `down` (last-good lists stay), or
            `login_required`, which is down for want of a login.
        error: why it is down, naming the upstream; "" otherwise.
        since: the supervisor's clock when the state was entered, seconds.
        era, protocol_version: what it speaks; None and "" while unknown.
        tools, skills: how many its last good lists have.
        attempts: connection attempts since it was last stable.
        awaited: what it has not done yet, while its process starts; "" otherwise.
        dropped: the first of what its last good lists lack because it cannot be handled.
        dropped_count: how much they lack in all.
        restarts: how often it was lost after it had listed, and had to be connected anew.
        personal: whether it wants the callers' own logins or tokens, and takes none of the gateway.
    """

    state: State
    error: str = ""
    since: float = 0.0
    era: Era | None = None
    protocol_version: str = ""
    tools: int = 0
    attempts: int = 0
    dropped: Sequence[Dropped] = ()
    dropped_count: int = 0
    awaited: str = ""
    restarts: int = 0
    skills: int = 0
    personal: bool = False

    @property
    def up(self) -> bool:
        """Whether it can be called, as far as the gateway itself can tell."""
        return self.state == "ready" or self.personal


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One upstream as the pool sees it.

    Attributes:
        sessions: sessions (processes, HTTP sessions) that are open or opening, and whose.
        max_sessions: how many there may be.
        isolation: by what they are kept apart, as configured.
        in_flight: calls under way.
        queued: calls waiting for their turn.
        breaker: state of the breaker.
    """

    sessions: SessionCounts
    max_sessions: int
    isolation: str
    in_flight: int
    queued: int
    breaker: breaker.State


class UpstreamState:
    """The status of one upstream as it changes.

    Args:
        server: key of the upstream.
        errors: what its processes wrote to standard error.
        clock: for `UpstreamStatus.since`.

    Attributes:
        status: as it is now.
    """

    def __init__(self, server: str, errors: ErrorOutput, clock: Clock) -> None:
        self._server = server
        self._errors = errors
        self._clock = clock
        self.status = UpstreamStatus("connecting", since=clock.now())
        self._logged: set[str] = set()

    def ready(self, link: BaseLink, lists: ServerLists) -> None:
        """Record that the upstream answered over `link`, with these lists."""
        if self.status.state != "ready":
            log.info(
                "upstream_ready",
                upstream=self._server,
                tools=len(lists.tools),
                revision=link.protocol_version,
            )
        self.status = UpstreamStatus(
            "ready",
            since=self._since("ready"),
            era=link.era,
            protocol_version=link.protocol_version,
            tools=len(lists.tools),
            skills=len(lists.skills),
            attempts=self.status.attempts,
            restarts=self.status.restarts,
            dropped=lists.dropped,
            dropped_count=lists.dropped_count,
        )

    def down(
        self,
        error: str,
        state: Literal["down", "login_required"] = "down",
        *,
        personal: bool = False,
    ) -> None:
        """Record that the upstream cannot be called, at least not by the gateway itself.

        Args:
            error: why, naming the upstream.
            state: whether a login would help.
            personal: whether callers bring their own.
        """
        error = redacted(error)
        kind = _NUMBERS.sub("0", error)
        say = log.debug if kind in self._logged else log.warning
        if len(self._logged) < _LOGGED_KINDS:
            self._logged.add(kind)
        said = self._errors.lines()[-_SHOWN_LINES:]
        more = {"stderr": said} if said else {}
        say("upstream_down", upstream=self._server, error=error, **more)
        self.status = replace(
            self.status, state=state, error=error, since=self._since(state), personal=personal
        )

    def stable(self) -> None:
        """It has worked for a while: later failures are logged as if they were the first."""
        self._logged.clear()

    def attempted(self, attempts: int, *, lost: bool = False) -> None:
        """Another attempt to connect has ended.

        Args:
            attempts: how many in a row.
            lost: whether it had listed before.
        """
        restarts = self.status.restarts + lost
        self.status = replace(self.status, attempts=attempts, restarts=restarts)

    def _since(self, state: State) -> float:
        return self.status.since if self.status.state == state else self._clock.now()
