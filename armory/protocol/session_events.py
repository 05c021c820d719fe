"""What happens on a session with an upstream outside any request, and who observes it.

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
"""Between a principal's key and the id of its client's session, in the key of an upstream session
that one client has to itself (`Placing.key_of`)."""


def is_of_one_client(owner: str) -> bool:
    """Whether one client has an upstream session with this key to itself."""
    return _WITHIN in owner


def principal_of(owner: str) -> str:
    """The key of the principal of that client; "" where the session is not one client's."""
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
        """Whether it says that one of the upstream's lists differs from now on."""
        return self.method.endswith("/list_changed")


@dataclass(frozen=True, slots=True)
class Renewed:
    """The session began anew behind the same link: lists may differ.

    Attributes:
        server, owner: as in `Notified`.
    """

    server: str
    owner: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The session ended by itself; tells so once, and not where the gateway closed it.

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
    """All sessions with an upstream are replaced by new ones, which know nothing yet of what the
    old ones were told; or it is gone.

    Attributes:
        server: key of the upstream.
    """

    server: str


SessionEvent = Notified | Renewed | Lost | Ended | Replaced


class SessionObserver(Protocol):
    """Who is told what happens on sessions; on the event loop, and must neither block nor raise."""

    def on_session_event(self, event: SessionEvent) -> None:
        """Something happened."""
        ...


class SessionObservers:
    """Tells several observers, in the order in which they were added."""

    def __init__(self) -> None:
        self._observers: list[SessionObserver] = []

    def add(self, observer: SessionObserver) -> None:
        """Tell this one, too, from now on."""
        self._observers.append(observer)

    def remove(self, observer: SessionObserver) -> None:
        """Tell it no more."""
        self._observers.remove(observer)

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        for observer in tuple(self._observers):
            try:
                observer.on_session_event(event)
            except Exception as defect:  # noqa: BLE001 it would take along what else is read
                _log.error("session_observer_failed", kind=type(event).__name__, exc_info=defect)
