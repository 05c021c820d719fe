"""Events on an upstream session outside any request, and their observers.

Owns: the events, on their way from a link through its pool to the supervisor and the gateway. Never
imports a transport.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from armory.logger import Logger
from armory.protocol.link import Params

_log = Logger(__name__)


_WITHIN = "\n"
"""Separates a principal's key from the id of its client's session in the key of an upstream session
that one client has to itself (`Placing.key_of`)."""


def is_of_one_client(owner: str) -> bool:
    """Whether the upstream session with this key belongs to one client alone."""
    return _WITHIN in owner


def principal_of(owner: str) -> str:
    """The principal's key of that client; "" where the session is not one client's."""
    return owner.rpartition(_WITHIN)[0]


@dataclass(frozen=True, slots=True)
class Notified:
    """The upstream sent a notification that belongs to no request.

    Attributes:
        server: key of the upstream.
        owner: the pool's key of the session's owner; "" for the gateway's own session.
        method, params: as they came.
    """

    server: str
    owner: str
    method: str
    params: Params

    @property
    def list_changed(self) -> bool:
        """Whether it announces that one of the upstream's lists has changed."""
        return self.method.endswith("/list_changed")


@dataclass(frozen=True, slots=True)
class Renewed:
    """The session was replaced behind the same link: lists may differ.

    Attributes:
        server, owner: as in `Notified`.
    """

    server: str
    owner: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The session ended by itself (not closed by the gateway); reported once.

    Attributes:
        server, owner: as in `Notified`.
        reason: why, for people; does not name the upstream.
    """

    server: str
    owner: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A session of the legacy era is over, whoever ended it.

    Attributes:
        server: key of the upstream.
        seconds: how long it lasted.
        version: the revision that was spoken.
        process: whether the upstream is a process.
    """

    server: str
    seconds: float
    version: str
    process: bool


@dataclass(frozen=True, slots=True)
class Replaced:
    """All sessions with an upstream were replaced by new ones without the old ones' subscriptions;
    or the upstream is gone.

    Attributes:
        server: key of the upstream.
    """

    server: str


SessionEvent = Notified | Renewed | Lost | Ended | Replaced


class SessionObserver(Protocol):
    """Observes upstream sessions; called on the event loop, must neither block nor raise."""

    def on_session_event(self, event: SessionEvent) -> None:
        """Handle an event."""
        ...


class SessionObservers:
    """Notifies several observers, in the order in which they were added."""

    def __init__(self) -> None:
        self._observers: list[SessionObserver] = []

    def add(self, observer: SessionObserver) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def remove(self, observer: SessionObserver) -> None:
        """Remove an observer."""
        self._observers.remove(observer)

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        for observer in tuple(self._observers):
            try:
                observer.on_session_event(event)
            except Exception as defect:  # noqa: BLE001 it would take along what else is read
                _log.error("session_observer_failed", kind=type(event).__name__, exc_info=defect)
