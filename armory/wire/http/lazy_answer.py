"""Answers that are JSON, or an event stream if something comes before the result.

Owns: `LazyAnswer`, to a modern request, and `InPlace`, to a legacy one that is served in the task
of its connection. A task of its own is part of what a small call costs, and most calls need none:
where the client goes, the connection lets the request go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from aiohttp import web
from msgspec import UNSET

from armory.protocol import codes, versions
from armory.protocol.errors import Malformed
from armory.protocol.headers import SESSION_HEADER
from armory.protocol.jsonrpc import Message
from armory.protocol.link import ClientGone, Reply
from armory.tasks import retrieve_failure, shielded, spawn, start, stop
from armory.wire.dispatch import Dispatcher
from armory.wire.errors import status_of
from armory.wire.http.admitted import (
    OVERDUE,
    AdmittedRequest,
    answered_overdue,
    json_answer,
    new_stream,
    session_gone,
)
from armory.wire.http.answers import held_for, write_event
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.messages import (
    Data,
    Parameters,
    Part,
    answer_parts,
    encoded,
    opened,
    refused,
)
from armory.wire.requests import session_request
from armory.wire.sessions.running import Running
from armory.wire.sessions.session import Session
from armory.wire.sse import PING, frame, priming, pump
from armory.wire.streams import EventStream, Outlet


class LazyAnswer:
    """The answer to a modern request: JSON, unless there are messages before the result.

    A client that accepts event streams gets one as soon as there is a notification, or after 15
    seconds of silence, so that proxies keep the connection.
    """

    def __init__(self, admitted: AdmittedRequest, keepalive: KeepaliveTimer) -> None:
        self._admitted = admitted
        self._keepalive = keepalive
        self._response: web.StreamResponse | None = None
        self._opening: asyncio.Task[web.StreamResponse] | None = None
        self._pinging: asyncio.Task[None] | None = None
        keepalive.add(self)

    @property
    def admitted(self) -> AdmittedRequest:
        """The request that it answers."""
        return self._admitted

    @property
    def begun(self) -> bool:
        """Whether a part of it was written, or is about to be."""
        return self._opening is not None

    def keep_alive(self) -> None:
        """Keep the connection of a client that waits."""
        if self._admitted.takes_sse:
            self._pinging = spawn(self._ping(), "keep-alive of a client")

    def cut(self) -> None:
        """Close the client's connection, if it still waits; the call is cancelled as if the client
        had gone.
        """
        transport = self._admitted.request.transport
        if self in self._keepalive and transport is not None:
            transport.abort()

    async def _ping(self) -> None:
        with contextlib.suppress(ConnectionError):
            response = await self._open()
            await response.write(PING)

    async def _open(self) -> web.StreamResponse:
        if self._response is not None:
            return self._response
        if self._opening is None:
            self._opening = start(self._start(), "headers of an answer")
            self._opening.add_done_callback(retrieve_failure)
        return await shielded(self._opening)

    async def _start(self) -> web.StreamResponse:
        response = new_stream(self._admitted)
        await response.prepare(self._admitted.request)
        self._response = response
        return response

    async def event(self, data: bytes) -> None:
        """Send a message before the result; dropped for clients that accept only JSON.

        Raises:
            ClientGone: the client is. As an error of its connection that would pass for one of the
                upstream's, on whose answer this is called.
        """
        if not self._admitted.takes_sse:
            return
        try:
            response = await self._open()
            await response.write(frame(data))
        except ConnectionError:
            raise ClientGone("the client has closed the connection") from None

    async def finish(self, id: bytes, reply: Reply) -> web.StreamResponse:
        """Write the result and end the answer. An error with an HTTP status of its own is JSON."""
        self.stop()
        status = 200 if reply.error is None else status_of(reply.error)
        if self._opening is not None or not (self._admitted.takes_json or status >= 400):
            response = await self._open()
            await write_event(self._admitted.request, response, answer_parts(id, reply))
            await response.write_eof()
            return response
        return json_answer(self._admitted, answer_parts(id, reply), status)

    def stop(self) -> None:
        """Stop writing keep-alives."""
        self._keepalive.drop(self)
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None


def outlives_its_client(admitted: AdmittedRequest) -> bool:
    """Whether a request can go on after its client has disconnected."""
    return hasattr(admitted.connection, "left")


def without_answer(session: Session, admitted: AdmittedRequest) -> web.StreamResponse:
    """What ends a request that has no answer: its client withdrew it, or its session ended, of
    which the client may not know.
    """
    if session.closed:
        return session_gone(admitted)
    return web.Response(status=202, headers=dict(admitted.extra))


async def answer_to(
    dispatcher: Dispatcher,
    message: Message,
    admitted: AdmittedRequest,
    session: Session,
    before: Outlet,
    known: Parameters,
) -> Data:
    """The message that answers a session's request.

    Args:
        dispatcher: knows the answer.
        message: the request.
        admitted: how it came.
        session: whose it is.
        before: takes what is said before the answer.
        known: its parameters.
    """
    key = message.key
    try:
        params, meta = opened(message, known)
        request = session_request(admitted.caller, session, before, meta, key)
        method = message.method if message.method is not UNSET else ""
        return encoded(key, await dispatcher.answer(request, method, params))
    except Malformed as bad:
        dispatcher.refused(admitted.caller, bad.code)
        return refused(key, bad.code, bad.message)


async def send_events(
    admitted: AdmittedRequest,
    session: Session,
    stream: EventStream,
    reader: int,
    first: Iterable[Part],
) -> web.StreamResponse:
    """Answer with the events of a request's stream; `first` goes before those that were not read
    yet.
    """
    response = new_stream(admitted, {SESSION_HEADER: session.id})
    await response.prepare(admitted.request)
    with held_for(admitted.request, stream):
        if session.version >= versions.PRIMING_SINCE:
            await response.write(priming(stream.event_id(0)))
        for piece in first:
            await response.write(piece)
        await pump(response.write, stream, ids=True, reader=reader)
    await response.write_eof()
    return response


class InPlace:
    """The answer to one request of a session, served in the connection's task.

    A client that accepts event streams gets one as soon as there is a message, or after some
    seconds of silence. A client that disconnects can resume, once it has got an event.

    Args:
        admitted: the request; its client takes JSON.
        session: whose it is.
        keepalive: says when it has been silent for long.

    Attributes:
        closed, reading: as `Outlet`'s.
    """

    def __init__(
        self, admitted: AdmittedRequest, session: Session, keepalive: KeepaliveTimer
    ) -> None:
        self.closed = False
        self.reading = True
        self._admitted = admitted
        self._session = session
        self._keepalive = keepalive
        self._stream: EventStream | None = None
        self._reader = 0
        self._pumping: asyncio.Task[web.StreamResponse] | None = None

    async def serve(
        self, dispatcher: Dispatcher, message: Message, known: Parameters
    ) -> web.StreamResponse:
        """Answer the request; `known` are its parameters.

        Raises:
            ConnectionResetError: the client is gone.
        """
        session, key, admitted = self._session, message.key, self._admitted
        connection = admitted.connection
        running = Running(admitted.request.task)
        session.inflight.add(key, running)
        connection.left = self._left
        takes_events = admitted.takes_sse
        if takes_events:
            session.carry(self)
            self._keepalive.add(self)
        answer: Data | None = None
        try:
            before = self if takes_events else session.general
            answer = await answer_to(dispatcher, message, admitted, session, before, known)
        except asyncio.CancelledError:
            if not running.withdrawn:
                if not answered_overdue(admitted):
                    raise
                answer = refused(key, codes.BACKEND, OVERDUE)
        finally:
            running.end()
            session.inflight.drop(key, running)
            session.touch()
            connection.left = None
            self._over(takes_events, answer)
        if not self.reading:
            raise ConnectionResetError("the client is gone")
        pumping, self._pumping = self._pumping, None
        if pumping is not None:
            try:
                return await pumping
            finally:
                del pumping  # whose error holds this frame by its trace
        if answer is None:
            return without_answer(session, admitted)
        return json_answer(admitted, answer)

    # -- what comes before the answer ----------------------------------------------------------

    def put(self, data: bytes) -> None:
        """As `Outlet.put`."""
        self._opened().put(data)

    async def write(self, data: bytes) -> None:
        """As `Outlet.write`."""
        await self._opened().write(data)

    def keep_alive(self) -> None:
        """As `keepalive.Waiting.keep_alive`."""
        if self.reading:
            self._opened((PING,))

    def _opened(self, first: tuple[bytes, ...] = ()) -> EventStream:
        """The stream, which begins with the first message."""
        stream = self._stream
        if stream is None:
            stream = self._stream = self._session.open_stream(carries=False)
            if self.reading:
                self._reader = stream.attach()
                events = send_events(self._admitted, self._session, stream, self._reader, first)
                self._pumping = start(events, "events of a request")
        return stream

    def _over(self, took_events: bool, answer: Data | None) -> None:
        """No more messages come before the answer."""
        self.closed = True
        if took_events:
            self._keepalive.drop(self)
            self._session.stop_carrying(self)
        elif self._session.general.size_bytes:  # what was said is there
            self._session.keep_within_bounds()
        if self._stream is not None:
            self._end(self._stream, answer)

    def _end(self, stream: EventStream, answer: Data | None) -> None:
        if answer is not None:
            stream.put(answer)
        stream.close()
        self._session.keep_within_bounds()

    def _left(self) -> None:
        """The client has disconnected; messages are kept for when it resumes. If it has resumed
        already, its reader goes on.
        """
        self.reading = False
        if self._stream is not None:
            self._stream.detach(self._reader)
        if self._pumping is not None:
            self._session.run(stop(self._pumping))
