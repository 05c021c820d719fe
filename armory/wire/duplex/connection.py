"""One bidirectional connection, serving both eras.

Owns: what each message that comes is, the connection's session, and its end. Bytes come in through
`take`, go out through the stream; never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

import msgspec
from msgspec import UNSET, Raw

from armory.domain.principal import Principal
from armory.gateway.requests import ClientRequest
from armory.protocol import bodies, codes, jsonrpc, versions
from armory.protocol.errors import Malformed
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Reply
from armory.protocol.meta import PROTOCOL_VERSION
from armory.protocol.methods import CANCELLED, LISTEN
from armory.protocol.rawjson import EMPTY_OBJECT, text_of
from armory.steps import Account
from armory.tasks import Tasks, step_by_step, stop
from armory.wire.caller import Caller
from armory.wire.dispatch import Dispatcher
from armory.wire.duplex.in_flight import Deliver, RequestsInFlight
from armory.wire.eras import inbound
from armory.wire.errors import error_object
from armory.wire.interaction.state import REFUSED_STATE, OwnedByReplica
from armory.wire.listening import ClientListening
from armory.wire.messages import (
    Data,
    Parameters,
    cancelled,
    encoded,
    opened,
    refused,
    taken_apart_in_steps,
)
from armory.wire.methods import named_parameter, refuse_large
from armory.wire.requests import modern_request, session_request
from armory.wire.sessions.batch_answers import BatchAnswers
from armory.wire.sessions.batches import Batches, OneBatch
from armory.wire.sessions.registry import Sessions, TooMany
from armory.wire.sessions.session import Session
from armory.wire.streams import EventStream


class DuplexRequest(msgspec.Struct, frozen=True):
    """A request that came on the connection.

    Attributes:
        id: its JSON-RPC id, as JSON.
        method: what it asks for.
        params, meta: members of its `params` and of their `_meta`.
        caller: who asks, with the headers of this message.
    """

    id: bytes
    method: str
    params: dict[str, Raw]
    meta: dict[str, Raw]
    caller: Caller


class Duplex:
    """One bidirectional connection.

    Args:
        dispatcher, sessions: the request path of the edge that it belongs to.
        caller: who is at the other end, and where.
        out: what goes to the client; its owner writes it out.
        batches: what those of clients may take.
        json_depth: deepest nesting of a message; None: whoever reads it has looked.
        account: charged with the time of the event loop that requests take; None: nobody is.

    Attributes:
        closed: whether the other end is gone: nothing more is taken.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        sessions: Sessions,
        caller: Caller,
        out: EventStream,
        batches: Batches,
        *,
        json_depth: int | None,
        account: Account | None = None,
    ) -> None:
        self.closed = False
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._caller = caller
        self._out = out
        self._json_depth = json_depth
        self._requests = RequestsInFlight(out, account)
        self._allowed = batches
        self._batches = Tasks()
        self._listening: set[ClientListening] = set()
        self._draining = False
        self._session: Session | None = None
        self._opening = False

    async def take(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Handle one frame from the client: a message or, in 2025-03-26, a batch. Never raises.

        Args:
            data: the frame.
            headers: what stands in for those of the caller in this frame; None: nothing.
        """
        caller = self._caller
        if headers is not None:
            caller = msgspec.structs.replace(caller, headers=headers)
        try:
            if self._json_depth is not None:
                bodies.check_depth(data, self._json_depth)
            if bodies.is_batch(data):
                items = bodies.batch_items(data, self._allowed.items)
                await self._batch(await step_by_step(items), caller)
            else:
                message, known = await taken_apart_in_steps(data, refuse_large)
                if not self.closed:  # meanwhile
                    await self._message(message, known, caller, self._out.write)
        except Malformed as bad:
            await self.refuse(bad.code, bad.message, bad.id)

    async def refuse(self, code: int, message: str, id: bytes = jsonrpc.NULL) -> None:
        """Answer a frame that could not be decoded."""
        self._dispatcher.refused(self._caller, code)
        await self._out.write(refused(id, code, message))

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the connection was opened with."""
        return self._caller.headers

    def seen_as(self, principal: Principal) -> None:
        """The client sent another request; update its scopes."""
        if principal is not self._caller.principal:
            self._caller = msgspec.structs.replace(self._caller, principal=principal)
            if self._session is not None:
                self._session.seen_as(principal, self._caller.endpoint)

    # -- what comes --------------------------------------------------------------------------

    async def _message(
        self, message: Message, known: Parameters, caller: Caller, deliver: Deliver
    ) -> asyncio.Task[None] | None:
        """Handle one message; returns the task of a request, whose answer goes to `deliver`."""
        if not message.is_request:
            self._receive(message)
        elif message.method == "initialize":
            await self._initialize(message, known)
        else:
            return self._start(message, known, caller, deliver)
        return None

    async def _batch(self, items: list[Raw], caller: Caller) -> None:
        if self._session is None or self._session.version != versions.BATCHES:
            raise Malformed(
                codes.INVALID_REQUEST,
                f"only revision {versions.BATCHES} has batches, after its handshake; send one "
                "message per line",
            )
        with ExitStack() as held:
            batch = held.enter_context(self._allowed.bytes.batch())
            answers = BatchAnswers(batch)
            calls = [await self._of_batch(item, caller, batch, answers) for item in items]
            if self.closed:  # meanwhile
                return
            # What the client says meanwhile must be read: a call may have to ask it something.
            ending = self._batches.spawn(self._answer_batch(calls, answers), "answer of a batch")
            given_back = held.pop_all()
            ending.add_done_callback(lambda _: given_back.close())

    async def _of_batch(
        self, item: Raw, caller: Caller, batch: OneBatch, answers: BatchAnswers
    ) -> asyncio.Task[None] | None:
        try:
            message, known = await taken_apart_in_steps(item, refuse_large)
            if message.is_request:
                await self._allowed.turns.next(caller.principal.person)
                if full := batch.full:
                    raise Malformed(codes.LIMITED, full, message.key)
            if self.closed:  # meanwhile
                return None
            return await self._message(message, known, caller, answers.taking(message.key))
        except Malformed as bad:
            self._dispatcher.refused(caller, bad.code)
            answers.refuse(bad)
            return None

    async def _answer_batch(
        self, calls: list[asyncio.Task[None] | None], answers: BatchAnswers
    ) -> None:
        if going := [call for call in calls if call is not None]:
            await asyncio.wait(going)
        if found := answers.whole():
            await self._out.write(b"[" + b",".join(found) + b"]")

    def _receive(self, message: Message) -> None:
        """Handle a notification or a response of the client."""
        if message.method == CANCELLED:
            self._requests.cancel(*cancelled(message))
        elif self._session is not None:
            self._sessions.receive(self._session, message)

    async def _initialize(self, message: Message, known: Parameters) -> None:
        params, _ = opened(message, known)
        if self._session is not None or self._opening:
            raise Malformed(codes.INVALID_REQUEST, "initialize came twice", message.key)
        self._opening = True
        try:
            session = await self._sessions.open(self._caller, message, params, self._out)
        except TooMany as full:
            self._dispatcher.refused(self._caller, codes.LIMITED, "initialize")
            await self._out.write(refused(message.key, codes.LIMITED, str(full)))
            return
        finally:
            self._opening = False
        if self.closed:
            await self._sessions.end(session)
            return
        self._session = session
        request = session_request(self._caller, session, self._out, {}, message.key)
        reply = await self._dispatcher.answer(request, "initialize", {})
        await self._out.write(encoded(message.key, reply))

    # -- requests ----------------------------------------------------------------------------

    def _start(
        self, message: Message, known: Parameters, caller: Caller, deliver: Deliver
    ) -> asyncio.Task[None]:
        """Serve a request in a task; its answer goes to `deliver`.

        Raises:
            Malformed: `params` or `_meta` is no object, or too many requests are under way.
        """
        params, meta = opened(message, known)
        method = message.method if message.method is not UNSET else ""
        request = DuplexRequest(message.key, method, params, meta, caller)
        serve = self._modern if inbound.is_modern(None, meta, method) else self._legacy
        return self._requests.start(message.key, partial(serve, request), deliver)

    async def _legacy(self, asked: DuplexRequest) -> Data:
        session = self._session
        if session is None:
            if asked.method == "ping":
                return jsonrpc.response(asked.id, EMPTY_OBJECT)
            self._dispatcher.refused(asked.caller, codes.INVALID_REQUEST, asked.method)
            return refused(asked.id, codes.INVALID_REQUEST, "send initialize first")
        request = session_request(asked.caller, session, self._out, asked.meta, asked.id)
        reply = await self._dispatcher.answer(request, asked.method, asked.params)
        return encoded(asked.id, reply)

    async def _modern(self, asked: DuplexRequest) -> Data:
        method, params, meta = asked.method, asked.params, asked.meta
        version = text_of(meta, PROTOCOL_VERSION)
        rejected = inbound.refusal(method, version, params, meta, named_parameter(method), None)
        if rejected is not None:
            self._dispatcher.refused(asked.caller, rejected.code, method)
            return jsonrpc.error_response(asked.id, error_object(rejected))
        version = version or versions.MODERN_VERSIONS[-1]
        request = modern_request(asked.caller, version, meta, self._out.write, asked.id)
        if method == LISTEN:
            return await self._listen(request, asked.id, params)
        try:
            reply = await self._dispatcher.answer(request, method, params)
        except OwnedByReplica:
            self._dispatcher.refused(asked.caller, codes.INVALID_PARAMS, method)
            reply = Reply(error=REFUSED_STATE)
        if self._out.closed:
            self._dispatcher.leave(request)
        return encoded(asked.id, reply)

    async def _listen(self, request: ClientRequest, id: bytes, params: Mapping[str, Raw]) -> Data:
        listening = await self._dispatcher.listen(request, id, params)
        if isinstance(listening, Reply):
            return encoded(id, listening)
        self._listening.add(listening)
        if self._draining:
            listening.stream.close()
        reader = listening.stream.attach()
        try:
            while True:
                try:
                    event = await listening.stream.next(reader, 3_600.0)
                except EOFError:
                    return listening.result()
                if event is not None:
                    await self._out.write(event[1])
        finally:
            self._listening.discard(listening)
            await listening.end()

    # -- the end -----------------------------------------------------------------------------

    async def finish(self) -> None:
        """The input has ended: the stream ends once all requests in flight have, however long that
        takes.
        """
        await self.drain(None)
        self._out.close()

    async def drain(self, timeout_s: float | None) -> None:
        """The input has ended: end listening requests properly, and let the others finish without
        answers to their questions.
        """
        self._draining = True
        if self._session is not None:
            self._session.questions.hang_up()
        for listening in list(self._listening):
            listening.stream.close()
        running = [*self._requests, *self._batches]
        if running:
            await asyncio.wait(running, timeout=timeout_s)

    def run_out(self) -> None:
        """As `RequestsInFlight.run_out`."""
        self._requests.run_out()

    async def close(self) -> None:
        """The client is gone: cancel what is in flight, end the session."""
        self.closed = True
        await stop(*self._requests, *self._batches, timeout_s=5)
        self._out.close()
        if self._session is not None:
            await self._sessions.end(self._session)
