"""The legacy sessions of this replica: opened, looked up, expired, ended.

Owns: `Sessions`, and what a client sends within its session beside requests. Never imports a web
framework. Which replica owns a session is the business of a `SessionDirectory`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from msgspec import Raw

from armory.domain.limits import Holdings
from armory.domain.principal import Principal
from armory.gateway.gateway import Gateway
from armory.gateway.lists.groups import served_to
from armory.gateway.requests import ClientRequest
from armory.logger import Logger
from armory.protocol import codes
from armory.protocol.capabilities import declared_in_sessions
from armory.protocol.errors import Malformed
from armory.protocol.jsonrpc import Message, params_of
from armory.protocol.link import Params
from armory.protocol.methods import (
    ABOUT_TASKS,
    CANCELLED,
    GROUPS_CHANGED,
    INITIALIZED,
    PROGRESS,
    ROOTS_CHANGED,
)
from armory.protocol.rawjson import text_of
from armory.tasks import Flight, Tasks, give_way, shielded, start
from armory.wire.caller import Caller
from armory.wire.eras.client_meta import meta_alone
from armory.wire.eras.handshakes import (
    CAPABILITIES_BYTES,
    capabilities_of,
    negotiated,
    within_bounds,
)
from armory.wire.messages import cancelled, notified
from armory.wire.sessions.kept import KeptBytes
from armory.wire.sessions.session import GENERAL, Session
from armory.wire.settings import SESSION_IDLE_S, SESSIONS
from armory.wire.streams import EventStream

_T = TypeVar("_T")
_log = Logger(__name__)
_TURN_S = 0.001
"""How long sessions are ended before the event loop gets its next turn."""
_AT_ONCE = 16
"""Sessions that end side by side: each may wait for an upstream, or for a store."""
_SOON_S = 0.01
"""A session that takes longer to end does so beside the next ones."""
_PASSED_ON_AT_ONCE = 64
"""Notifications unknown to Armory that one client may have under way; further ones are dropped."""
_EXPIRE_EVERY_S = 1.0
"""Seconds between two searches for expired sessions to make room: with 5,000 sessions one takes a
millisecond."""
_LOGGED_IDS = 5
"""How many the log names of sessions that expire together."""


class TooMany(Exception):
    """A limit is reached; the message says which."""


OnEnded = Callable[[float, str], None]
"""Told of a session that ended: how many seconds it lasted, which revision it spoke."""


class SessionDirectory(Protocol):
    """The directory of sessions over several replicas."""

    async def claim(self, session_id: str) -> None:
        """Record that this replica owns the session."""
        ...

    async def owner(self, session_id: str) -> str | None:
        """Base URL of the replica that owns it, if that is another one and alive."""
        ...

    async def release(self, session_id: str) -> None:
        """The session ended."""
        ...


class Sessions:
    """All legacy sessions of this replica.

    Args:
        gateway: hears of sessions that come and go.
        capacity: most sessions at once.
        per_principal: the same for one principal; None: no other.
        idle_s: seconds after which an unused session ends.
        directory: where other replicas look sessions up, if there are any.
        on_ended: called for each session that ended.

    Attributes:
        refused: how many were one too many.
        kept: what they keep for clients that come back.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        capacity: int = SESSIONS,
        per_principal: int | None = None,
        idle_s: float = SESSION_IDLE_S,
        directory: SessionDirectory | None = None,
        on_ended: OnEnded | None = None,
    ) -> None:
        self._gateway = gateway
        self._capacity = capacity
        self._per_principal = capacity if per_principal is None else per_principal
        self._by_person: Holdings[str] = Holdings()
        self.refused = 0
        self._idle_s = idle_s
        self.directory = directory
        self._on_ended = on_ended
        self._sessions: dict[str, Session] = {}
        self.kept = KeptBytes()
        self._ending = Tasks()
        self._expiring: Flight[None] = Flight("expire sessions")
        self._expired_at = -_EXPIRE_EVERY_S

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(
        self,
        caller: Caller,
        message: Message,
        params: Mapping[str, Raw],
        general: EventStream | None = None,
    ) -> Session:
        """Open a session, as an `initialize` asks for it.

        Args:
            caller: whose it will be.
            message: the `initialize`.
            params: of the message.
            general: the one stream of a transport that has no other.

        Raises:
            Malformed: the message names no revision, or its capabilities are too large.
            TooMany: too many sessions are open, of the caller or in all.
        """
        version, capabilities = _requested(message, params)
        person = caller.principal.person
        await self._check_limits(person)
        session = Session(
            secrets.token_hex(16),
            caller.principal,
            caller.endpoint,
            version,
            capabilities,
            general,
        )
        session.on_kept = self.kept.keeps
        if served_to(session.capabilities, caller.endpoint, self._gateway.view.settings):
            session.subscription.lists |= {GROUPS_CHANGED}
        self._sessions[session.id] = session
        self._by_person.take(person)
        self._gateway.changes.add(session.subscription)
        if self.directory is not None:
            try:
                await self.directory.claim(session.id)
            except asyncio.CancelledError:  # its client left, and never learns of it
                self._ending.spawn(self._end(session), "end a session")
                raise
        return session

    async def _check_limits(self, person: str) -> None:
        """Check that one more session may be opened; where not, idle ones are ended first.

        Raises:
            TooMany: a limit is reached.
        """
        if len(self._sessions) >= self._capacity:
            await self._make_room()
            if len(self._sessions) >= self._capacity:
                self.refused += 1
                raise TooMany(
                    f"{self._capacity} sessions are open (server.limits.sessions); try again later"
                )
        if self._by_person[person] >= self._per_principal:
            await self._make_room()
            if self._by_person[person] >= self._per_principal:
                self.refused += 1
                raise TooMany(
                    f"{self._per_principal} sessions of yours are open "
                    "(server.limits.sessions_per_principal); end some, or try again later"
                )

    def find(self, id: str, caller: Caller) -> Session | None:
        """The caller's session with that id at its endpoint; None when it has none."""
        session = self._sessions.get(id)
        if session is None or session.closed:
            return None
        principal, endpoint = caller.principal, caller.endpoint
        same = session.principal.key == principal.key and (
            session.endpoint.kind,
            session.endpoint.name,
        ) == (endpoint.kind, endpoint.name)
        if not same:
            return None
        session.seen_as(principal, endpoint)
        return session

    def receive(self, session: Session, message: Message) -> None:
        """Handle a notification or a response of a client; ignored once its session has ended."""
        if session.closed:
            return
        if not message.is_notification:
            session.questions.answered(message)
        elif message.method == ROOTS_CHANGED:
            # No request is open by which an upstream could ask what they are now.
            news = self._gateway.client_news
            params = meta_alone(notified(message), transparent=session.endpoint.transparent)
            session.run(news.roots_changed(session, session.channel, params))
        elif message.method == CANCELLED:
            session.cancel(*cancelled(message))
        elif message.method == PROGRESS:
            session.questions.progressed(notified(message))
        elif session.endpoint.transparent and session.errands < _PASSED_ON_AT_ONCE:
            method = str(message.method)
            if method != INITIALIZED and method not in ABOUT_TASKS:  # it has none for upstreams
                with suppress(Malformed):  # not what was said, then nothing
                    session.run(self._pass_on(session, method, params_of(message)))

    async def _pass_on(self, session: Session, method: str, params: Params) -> None:
        """Pass an unknown notification to the one upstream of a session's endpoint."""
        client, version, endpoint = session.channel, session.version, session.endpoint
        request = ClientRequest(session.principal, client, "legacy", version, endpoint, session)
        gateway = self._gateway
        await gateway.client_news.pass_on(await gateway.context(request), method, params)

    async def end(self, session: Session) -> None:
        """End one session completely, even if the caller is cancelled."""
        await self._wholly(self._end(session))

    async def _end(self, session: Session) -> None:
        if self._sessions.pop(session.id, None) is None:
            return
        self._by_person.give_back(session.person)
        await session.close()
        session.on_kept = None
        self.kept.keeps(session, 0)
        if self._on_ended is not None:
            self._on_ended(time.monotonic() - session.opened, session.version)
        await self._gateway.changes.remove(session.subscription)
        await self._gateway.session_ended(session.id)
        if self.directory is not None:
            await self.directory.release(session.id)
        session.let_go()

    async def end_those(self, whose: Callable[[Principal], bool]) -> None:
        """End the sessions of some principals."""
        await self._wholly(self._end_those(lambda session: whose(session.principal)))

    async def expire(self) -> None:
        """End the sessions that have been idle for too long."""
        await self._expiring.join(lambda: self._wholly(self._expire()))

    async def _make_room(self) -> None:
        """The same when the limit is reached, unless it was just done: otherwise each further
        session would cost a look at all of them.
        """
        if self._expiring.under_way or time.monotonic() - self._expired_at >= _EXPIRE_EVERY_S:
            await self.expire()

    async def _expire(self) -> None:
        limit = time.monotonic() - self._idle_s
        try:
            gone = await self._end_those(lambda session: session.used < limit and not session.busy)
        finally:
            self._expired_at = time.monotonic()
        if gone:
            _log.info(
                "sessions_expired", count=len(gone), first=[id[:8] for id in gone[:_LOGGED_IDS]]
            )

    async def _end_those(self, chosen: Callable[[Session], bool]) -> list[str]:
        """End the chosen sessions, in slices of a millisecond; returns their ids.

        Sessions that one caller opened within seconds expire together. A session that waits for an
        upstream or a store ends beside the others, and one that fails does not stop the rest.
        """
        gone: list[str] = []
        endings: list[asyncio.Task[None]] = []
        begun = time.perf_counter()
        try:
            for session in list(self._sessions.values()):
                if session.id in self._sessions and chosen(session):
                    session.closed = True  # from here on no request finds it
                    endings.append(start(self._end(session), "end a session"))
                    gone.append(session.id)
                    await asyncio.sleep(0)
                    if len(endings) % _AT_ONCE == 0:
                        await asyncio.wait(endings[-_AT_ONCE:], timeout=_SOON_S)
                        begun = time.perf_counter()  # the loop was the others'
                if (took := time.perf_counter() - begun) > _TURN_S:
                    await give_way(took)
                    begun = time.perf_counter()
        finally:
            if endings:
                await asyncio.wait(endings)
        errors = [error for ending in endings if (error := ending.exception()) is not None]
        try:
            if errors:
                raise errors[0]
        finally:
            error = None
            endings.clear()
            errors.clear()  # which hold this frame by their traces
        return gone

    async def _wholly(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` to its end even if the caller is cancelled, since nothing else would finish
        it.
        """
        return await shielded(self._ending.spawn(work, "end sessions"))

    def end_streams(self) -> None:
        """End the general streams; sessions and calls go on. A stream that a transport provided is
        ended by the transport, since answers come on it, too.
        """
        for session in self._sessions.values():
            if session.general.key == GENERAL:
                session.general.close()

    async def close(self) -> None:
        """End all sessions."""
        await self._wholly(self._end_those(lambda _: True))
        await self._ending.ended()


def _requested(message: Message, params: Mapping[str, Raw]) -> tuple[str, Mapping[str, Any]]:
    """(revision to speak, the client's capabilities) of an `initialize`.

    Raises:
        Malformed: it names no revision, or its capabilities are too large.
    """
    wanted = text_of(params, "protocolVersion")
    if wanted is None:
        raise Malformed(codes.INVALID_PARAMS, "params.protocolVersion is missing", message.key)
    declared = params.get("capabilities")
    if not within_bounds(declared):
        raise Malformed(
            codes.INVALID_PARAMS,
            f"params.capabilities is too large; expected {CAPABILITIES_BYTES:,} bytes at most",
            message.key,
        )
    return negotiated(wanted), declared_in_sessions(capabilities_of(declared))
