"""The legacy transport: sessions over POST, GET and DELETE.

Owns: the handshake, requests whose client may vanish and come back, batches, resumption. Never
imports the modern checks.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from msgspec import Raw

from armory.logger import Logger
from armory.protocol import bodies, codes, versions
from armory.protocol.errors import Malformed
from armory.protocol.headers import LAST_EVENT_ID, SESSION_HEADER
from armory.protocol.jsonrpc import Message
from armory.security.expiry import while_valid
from armory.tasks import spawn, start, step_by_step
from armory.wire.http.admitted import (
    OVERDUE,
    AdmittedRequest,
    answered_overdue,
    json_answer,
    new_stream,
    only_answer,
    refusal,
    session_gone,
)
from armory.wire.http.answers import held_for, write_event
from armory.wire.http.context import EdgeContext
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.http.lazy_answer import (
    InPlace,
    answer_to,
    outlives_its_client,
    send_events,
    without_answer,
)
from armory.wire.messages import Data, Parameters, encoded, refused, taken_apart_in_steps
from armory.wire.methods import refuse_large
from armory.wire.requests import session_request
from armory.wire.sessions.batch_answers import BatchAnswers
from armory.wire.sessions.batches import OneBatch
from armory.wire.sessions.registry import TooMany
from armory.wire.sessions.session import Session
from armory.wire.sse import PING, frame_pieces, priming, pump
from armory.wire.streams import EventStream, parse_event_id

_log = Logger(__name__)
_BATCH_AT_ONCE = 16
"""Requests of one batch that are served at the same time."""
_ENDED = "the session has ended"


class LegacyEndpoint:
    """Serves clients with a handshake.

    Args:
        edge: what the handlers of the edge share.
    """

    def __init__(self, edge: EdgeContext) -> None:
        self._edge = edge
        self._batches = edge.batches.bytes
        self._turns = edge.batches.turns

    async def post(
        self, admitted: AdmittedRequest, message: Message, known: Parameters
    ) -> web.StreamResponse:
        """Answer one POST; `known` are the message's parameters.

        Raises:
            Malformed: the message is not what its method needs.
        """
        if message.method == "initialize" and message.is_request:
            return await self._initialize(admitted, message, known[0])
        session = await self._session(admitted)
        if not isinstance(session, Session):
            return session
        if not message.is_request:
            self._edge.sessions.receive(session, message)
            return web.Response(status=202, headers=dict(admitted.extra))
        if admitted.takes_json and outlives_its_client(admitted):
            in_place = InPlace(admitted, session, self._edge.keepalive)
            return await in_place.serve(self._edge.dispatcher, message, known)
        stream = session.open_stream(carries=admitted.takes_sse)
        self._start(session, stream, message, known, admitted)
        return await _answer(admitted, session, stream, self._edge.keepalive)

    async def post_batch(self, admitted: AdmittedRequest, body: bytes) -> web.StreamResponse:
        """Answer a 2025-03-26 batch.

        Raises:
            Malformed: no batch, or the session's revision has none.
        """
        items = await step_by_step(bodies.batch_items(body, self._edge.batches.items))
        session = await self._session(admitted)
        if isinstance(session, web.StreamResponse):
            return session
        if session.version != versions.BATCHES:
            raise Malformed(
                codes.INVALID_REQUEST,
                f"revision {session.version} has no batches; send one message per request",
            )
        with self._batches.batch() as held:
            answers = await self._batch_answers(session, items, admitted, held)
        if not answers:
            return web.Response(status=202, headers=dict(admitted.extra))
        commas = [part for answer in answers for part in (b",", answer)]
        parts = [b"[", *commas[1:], b"]"]
        if admitted.takes_json:
            return json_answer(admitted, parts)
        response = new_stream(admitted)
        await response.prepare(admitted.request)
        await write_event(admitted.request, response, parts)
        await response.write_eof()
        return response

    async def _batch_answers(
        self, session: Session, items: list[Raw], admitted: AdmittedRequest, held: OneBatch
    ) -> list[bytes]:
        """The answers to the messages of a batch, in order."""
        answers = BatchAnswers(held)
        try:
            await self._serve_batch(session, items, admitted, held, answers)
        except asyncio.CancelledError:
            if not answered_overdue(admitted):
                raise
            await answers.give_up(items[len(answers) :], OVERDUE)
        return answers.whole()

    async def _serve_batch(
        self,
        session: Session,
        items: list[Raw],
        admitted: AdmittedRequest,
        held: OneBatch,
        answers: BatchAnswers,
    ) -> None:
        """Serve the messages of a batch, a limited number at a time."""
        going: set[asyncio.Task[None]] = set()
        for item in items:
            try:
                message, known = await taken_apart_in_steps(item, refuse_large)
            except Malformed as bad:
                self._edge.dispatcher.refused(admitted.caller, bad.code)
                answers.refuse(bad)
                continue
            if not message.is_request:
                answers.without()
                self._edge.sessions.receive(session, message)
                continue
            place = answers.place(message.key)
            if len(going) >= _BATCH_AT_ONCE:
                _, going = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
            await self._turns.next(admitted.caller.principal.person)
            await self._edge.admission.confirm(admitted)
            if session.closed:  # meanwhile
                self._edge.dispatcher.refused(admitted.caller, codes.INVALID_REQUEST)
                place.append(refused(message.key, codes.INVALID_REQUEST, _ENDED))
                continue
            if full := held.full:
                self._edge.dispatcher.refused(admitted.caller, codes.LIMITED)
                place.append(refused(message.key, codes.LIMITED, full))
                continue
            stream = session.open_stream(carries=False)
            self._start(session, stream, message, known, admitted, alone=False)
            collecting = answers.collect(session, stream, message.key, place)
            going.add(spawn(collecting, "answer of a batch"))
        if going:
            await asyncio.wait(going)

    async def get(self, admitted: AdmittedRequest) -> web.StreamResponse:
        """Open the session's general stream, or resume one of its streams."""
        if not admitted.takes_sse:
            message = "Accept must list text/event-stream"
            return refusal(406, codes.INVALID_REQUEST, message, headers=admitted.extra)
        session = await self._session(admitted)
        if isinstance(session, web.StreamResponse):
            return session
        stream, after = _resumed(session, admitted.caller.headers.get(LAST_EVENT_ID))
        key = admitted.caller.principal.person
        if full := self._edge.streams.take(key):
            return refusal(503, codes.LIMITED, full, headers=admitted.extra)
        try:
            response = new_stream(admitted, {SESSION_HEADER: session.id})
            await response.prepare(admitted.request)
            if stream is session.general and session.version >= versions.PRIMING_SINCE:
                last = stream.delivered if after is None else after
                await response.write(priming(stream.event_id(last)))
            pumping = pump(response.write, stream, ids=True, after=after)
            with held_for(admitted.request, stream):
                await while_valid(admitted.caller.principal, pumping)
            session.touch()
            await response.write_eof()
            return response
        finally:
            self._edge.streams.give_back(key)

    async def delete(self, admitted: AdmittedRequest) -> web.StreamResponse:
        """End the session."""
        session = await self._session(admitted)
        if isinstance(session, web.StreamResponse):
            return session
        await self._edge.sessions.end(session)
        return web.Response(status=204, headers=dict(admitted.extra))

    async def _session(self, admitted: AdmittedRequest) -> Session | web.StreamResponse:
        """The session that a request names; else the answer of the replica that owns it, or a
        refusal.
        """
        id = admitted.caller.headers.get(SESSION_HEADER)
        if id is None:
            self._edge.dispatcher.refused(admitted.caller, "http_400")
            return refusal(
                400,
                codes.INVALID_REQUEST,
                f"the {SESSION_HEADER} header is missing; send initialize first",
                headers=admitted.extra,
            )
        session = self._edge.sessions.find(id, admitted.caller)
        if session is not None:
            return session
        replicas = self._edge.replicas
        if replicas is not None:
            answer = await replicas.elsewhere(admitted, id)
            if answer is not None:
                return answer
        self._edge.dispatcher.refused(admitted.caller, "http_404")
        return session_gone(admitted)

    async def _initialize(
        self, admitted: AdmittedRequest, message: Message, params: dict[str, Raw]
    ) -> web.StreamResponse:
        id, caller = message.key, admitted.caller
        try:
            session = await self._edge.sessions.open(caller, message, params)
        except TooMany as full:
            self._edge.dispatcher.refused(caller, codes.LIMITED, "initialize")
            return refusal(503, codes.LIMITED, str(full), id=id, headers=admitted.extra)
        try:
            await self._edge.admission.confirm(admitted)
        except BaseException:  # also a client that leaves, and never learns of its session
            await self._edge.sessions.end(session)
            raise
        request = session_request(caller, session, session.general, {}, id)
        reply = await self._edge.dispatcher.answer(request, "initialize", {})
        return only_answer(admitted, encoded(id, reply), {SESSION_HEADER: session.id})

    def _start(
        self,
        session: Session,
        stream: EventStream,
        message: Message,
        known: Parameters,
        admitted: AdmittedRequest,
        *,
        alone: bool = True,
    ) -> None:
        """Serve a request in a task: a client that disconnects has not cancelled it.

        Messages before the answer go to the general stream if the request's own is not read live:
        the client accepts no events, or the request does not stand `alone`.
        """
        before = stream if admitted.takes_sse and alone else session.general
        work = self._run(session, stream, before, message, known, admitted)
        session.inflight.add(message.key, start(work, "request of a client"))

    async def _run(
        self,
        session: Session,
        stream: EventStream,
        before: EventStream,
        message: Message,
        known: Parameters,
        admitted: AdmittedRequest,
    ) -> None:
        key = message.key
        try:
            dispatcher = self._edge.dispatcher
            answer = await answer_to(dispatcher, message, admitted, session, before, known)
            stream.put(answer)
        except Exception as defect:  # noqa: BLE001 nobody waits for the task
            _log.rate_limited("error", "task_failed", task="request of a client", exc_info=defect)
        finally:
            session.inflight.drop(key, asyncio.current_task())
            session.touch()
            stream.close()
            session.keep_within_bounds()


def _resumed(session: Session, last_event_id: str | None) -> tuple[EventStream, int | None]:
    """(stream, position to resume after) of a GET; the general stream if the event id
    is unknown.
    """
    place = parse_event_id(last_event_id) if last_event_id is not None else None
    stream = session.stream(place[0]) if place is not None else None
    if place is None or stream is None or place[1] > stream.last:  # of a session before this one
        return session.general, None
    return stream, place[1]


async def _answer(
    admitted: AdmittedRequest, session: Session, stream: EventStream, keepalive: KeepaliveTimer
) -> web.StreamResponse:
    reader = stream.attach()
    try:
        try:
            first = await _first(admitted, stream, reader, keepalive)
        except EOFError:
            return without_answer(session, admitted)
        if first is not None and stream.closed and stream.last == 1 and admitted.takes_json:
            session.drop_stream(stream)
            return json_answer(admitted, first[1])
        said = (PING,) if first is None else frame_pieces(first[1], stream.event_id(first[0]))
        return await send_events(admitted, session, stream, reader, said)
    finally:
        stream.detach(reader)


async def _first(
    admitted: AdmittedRequest, stream: EventStream, reader: int, keepalive: KeepaliveTimer
) -> tuple[int, Data] | None:
    """The first message; None: a client that accepts events has heard nothing for long."""
    keepalive.add(stream)
    try:
        while True:
            found = await stream.next(reader, None)
            if found is not None or admitted.takes_sse:
                return found
    finally:
        keepalive.drop(stream)
