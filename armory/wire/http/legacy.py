"""The legacy transport: sessions over POST, GET and DELETE.

Owns: the handshake, requests whose client may vanish and come back, batches, resumption. Never
imports the modern ladder.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web

from armory.protocol import codes, jsonrpc, versions
from armory.protocol.errors import Malformed
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Reply
from armory.protocol.rawjson import text_of
from armory.security.expiry import while_valid
from armory.wire.eras import ladder as eras
from armory.wire.http.admitted import AdmittedRequest, json_answer, new_stream, refusal, url_of
from armory.wire.http.replicas import OwnerGone, gone, was_passed
from armory.wire.sessions.calls import encoded, exchange_of, opened, serve, take
from armory.wire.sessions.session import Session, TooMany
from armory.wire.streams import KEEPALIVE_S, PING, EventStream, frame, parse_event_id, priming, pump

if TYPE_CHECKING:
    from armory.wire.http.edge import HttpEdge

SESSION_HEADER = "Mcp-Session-Id"


async def post(edge: HttpEdge, admitted: AdmittedRequest, message: Message) -> web.StreamResponse:
    """Answer one legacy POST.

    Raises:
        Malformed: the message is not what its method needs.
    """
    if message.method == "initialize" and message.is_request:
        return await _initialize(edge, admitted, message)
    session = await _session(edge, admitted)
    if isinstance(session, web.StreamResponse):
        return session
    if not message.is_request:
        take(edge.gateway, session, message)
        return web.Response(status=202, headers=dict(admitted.extra))
    stream = session.open_stream()
    start(edge, session, stream, message, admitted)
    return await _answer(admitted, session, stream)


async def _session(edge: HttpEdge, admitted: AdmittedRequest) -> Session | web.StreamResponse:
    id = admitted.request.headers.get(SESSION_HEADER)
    if id is None:
        return refusal(
            400,
            codes.INVALID_REQUEST,
            f"the {SESSION_HEADER} header is missing; send initialize first",
            headers=admitted.extra,
        )
    session = edge.sessions.find(id, admitted.principal, admitted.endpoint)
    if session is not None:
        return session
    replicas = edge.replicas
    if replicas is not None and not was_passed(admitted):
        owner = await replicas.owner(id)
        if owner is not None:
            with suppress(OwnerGone):
                return await replicas.pass_on(admitted, owner)
    return gone(admitted)


async def _initialize(
    edge: HttpEdge, admitted: AdmittedRequest, message: Message
) -> web.StreamResponse:
    id = message.key
    params = jsonrpc.params_of(message)
    asked = text_of(params, "protocolVersion")
    if asked is None:
        raise Malformed(codes.INVALID_PARAMS, "params.protocolVersion is missing", id)
    version = eras.negotiated(asked)
    try:
        session = await edge.sessions.open(
            admitted.principal,
            admitted.endpoint,
            version,
            eras.capabilities_of(params.get("capabilities")),
        )
    except TooMany as full:
        return refusal(503, codes.LIMITED, str(full), id=id, headers=admitted.extra)
    context = exchange_of(
        session, session.general, {}, admitted.request.headers, url_of(admitted.request)
    )
    described = edge.gateway.described(context)
    body = jsonrpc.response(id, eras.initialize_result(version, described))
    return json_answer(admitted, body, headers={SESSION_HEADER: session.id})


def start(
    edge: HttpEdge,
    session: Session,
    stream: EventStream,
    message: Message,
    admitted: AdmittedRequest,
    *,
    alone: bool = True,
) -> asyncio.Task[None]:
    """Serve a request in a task of its own: a client that disconnects has not cancelled it.

    What is said before the answer takes the general stream where the request has none that is read
    as it comes: the client takes no events, or the request does not stand `alone`.
    """
    said = stream if admitted.takes_sse and alone else session.general
    task = asyncio.get_running_loop().create_task(
        _run(edge, session, stream, said, message, admitted)
    )
    session.inflight[message.key] = task
    return task


async def _run(
    edge: HttpEdge,
    session: Session,
    stream: EventStream,
    said: EventStream,
    message: Message,
    admitted: AdmittedRequest,
) -> None:
    key = message.key
    try:
        params, meta = opened(message)
        context = exchange_of(
            session, said, meta, admitted.request.headers, url_of(admitted.request)
        )
        reply = await serve(edge.dispatcher, session, context, message, params)
        stream.put(encoded(key, reply))
    except Malformed as bad:
        error = jsonrpc.error(bad.code, bad.message)
        stream.put(encoded(key, Reply(error=error)))
    finally:
        if session.inflight.get(key) is asyncio.current_task():
            del session.inflight[key]
        session.touch()
        stream.close()
        session.keep_within_bounds()


async def _answer(
    admitted: AdmittedRequest, session: Session, stream: EventStream
) -> web.StreamResponse:
    reader = stream.attach()
    try:
        found = None
        while found is None:
            try:
                found = await stream.next(reader, KEEPALIVE_S)
            except EOFError:  # cancelled by the client: there is no answer
                return web.Response(status=202, headers=dict(admitted.extra))
            if found is None and admitted.takes_sse:
                break
        if found is not None and stream.closed and stream.last == 1 and admitted.takes_json:
            session.drop_stream(stream)
            return json_answer(admitted, found[1])
        response = new_stream(admitted, {SESSION_HEADER: session.id})
        await response.prepare(admitted.request)
        if session.version >= versions.PRIMING_SINCE:
            await response.write(priming(stream.event_id(0)))
        if found is None:
            await response.write(PING)
        else:
            await response.write(frame(found[1], stream.event_id(found[0])))
        await pump(response.write, stream, ids=True)
        await response.write_eof()
        return response
    finally:
        stream.detach(reader)


async def post_batch(edge: HttpEdge, admitted: AdmittedRequest, body: bytes) -> web.StreamResponse:
    """Answer a 2025-03-26 batch.

    Raises:
        Malformed: no batch, or the session's revision has none.
    """
    items = jsonrpc.decode_batch(body)
    session = await _session(edge, admitted)
    if isinstance(session, web.StreamResponse):
        return session
    if session.version != versions.BATCHES:
        raise Malformed(
            codes.INVALID_REQUEST,
            f"revision {session.version} has no batches; send one message per request",
        )
    answers: list[bytes] = []
    streams: list[EventStream] = []
    for item in items:
        try:
            message = jsonrpc.decode(item)
        except Malformed as bad:
            answers.append(jsonrpc.error_response(bad.id, jsonrpc.error(bad.code, bad.message)))
            continue
        if not message.is_request:
            take(edge.gateway, session, message)
            continue
        stream = session.open_stream()
        streams.append(stream)
        start(edge, session, stream, message, admitted, alone=False)
    for stream in streams:
        answers.extend(await _only_result(session, stream))
    if not answers:
        return web.Response(status=202, headers=dict(admitted.extra))
    return json_answer(admitted, b"[" + b",".join(answers) + b"]")


async def _only_result(session: Session, stream: EventStream) -> list[bytes]:
    """What a request of a batch was answered; nothing where it was cancelled."""
    reader = stream.attach()
    seen: list[bytes] = []
    while True:
        try:
            found = await stream.next(reader, KEEPALIVE_S)
        except EOFError:
            break
        if found is not None:
            seen.append(found[1])
    session.drop_stream(stream)
    return seen


async def get(edge: HttpEdge, admitted: AdmittedRequest) -> web.StreamResponse:
    """Open the session's general stream, or resume one of its streams."""
    if not admitted.takes_sse:
        return refusal(
            406,
            codes.INVALID_REQUEST,
            "Accept must list text/event-stream",
            headers=admitted.extra,
        )
    session = await _session(edge, admitted)
    if isinstance(session, web.StreamResponse):
        return session
    stream, after = session.general, None
    last = admitted.request.headers.get("Last-Event-ID")
    if last is not None:
        known = parse_event_id(last)
        resumed = session.stream(known[0]) if known is not None else None
        if known is not None and resumed is not None:
            stream, after = resumed, known[1]
    if not edge.take_stream():
        return refusal(
            503,
            codes.LIMITED,
            "too many streams are open (server.limits.streams); try again later",
            headers=admitted.extra,
        )
    try:
        response = new_stream(admitted, {SESSION_HEADER: session.id})
        await response.prepare(admitted.request)
        if stream is session.general and session.version >= versions.PRIMING_SINCE:
            await response.write(priming(stream.event_id(after or stream.delivered)))
        await while_valid(admitted.principal, pump(response.write, stream, ids=True, after=after))
        session.touch()
        await response.write_eof()
        return response
    finally:
        edge.give_stream()


async def delete(edge: HttpEdge, admitted: AdmittedRequest) -> web.StreamResponse:
    """End the session."""
    session = await _session(edge, admitted)
    if isinstance(session, web.StreamResponse):
        return session
    await edge.sessions.end(session)
    return web.Response(status=204, headers=dict(admitted.extra))
