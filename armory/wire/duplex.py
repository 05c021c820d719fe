"""A connection that carries messages both ways: stdio, and HTTP+SSE.

Owns: serving one such connection in both eras. Bytes come in through `take`, go out through the
stream; never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Raw

from armory.domain.principal import Principal
from armory.errors import ArmoryError
from armory.gateway.context import Endpoint, RequestContext
from armory.gateway.gateway import Gateway
from armory.protocol import codes, jsonrpc, versions
from armory.protocol import meta as meta_keys
from armory.protocol.errors import Malformed, RpcError
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Answer, Params, Reply
from armory.protocol.meta import PROGRESS_TOKEN
from armory.protocol.rawjson import EMPTY_OBJECT, text_of
from armory.wire.dispatch import Dispatcher
from armory.wire.eras import ladder as eras
from armory.wire.errors import error_object
from armory.wire.interaction.interactions import OwnedByReplica
from armory.wire.listening import Listening, start_listening
from armory.wire.sessions.calls import cancel, encoded, exchange_of, opened, serve, take
from armory.wire.sessions.session import Session, Sessions, TooMany
from armory.wire.streams import EventStream


class PipeChannel:
    """A modern client at the other end of a pipe, behind one of its requests."""

    def __init__(
        self,
        out: EventStream,
        capabilities: Mapping[str, Any],
        log_level: str | None,
        progress_token: Raw | None,
    ) -> None:
        self._out = out
        self.capabilities = capabilities
        self.log_level = log_level
        self.progress_token = progress_token

    async def notify(self, method: str, params: Params) -> None:
        """Deliver a notification."""
        if method in eras.ON_REQUEST_STREAMS:
            await self._out.write(jsonrpc.notification(method, params or None))

    async def ask(self, method: str, params: Params) -> Answer:
        """A modern client is never asked directly: see `wire.interaction`."""
        del params
        message = f"{method} cannot be put to this client"
        return Answer(error=jsonrpc.error(codes.METHOD_NOT_FOUND, message))


class Duplex:
    """One connection.

    Args:
        gateway, dispatcher, sessions: the request path of the edge that it belongs to.
        principal, endpoint: who is at the other end, and where.
        out: what goes to the client; its owner writes it out.
        headers, url: of the HTTP request that opened it; empty elsewhere.
        json_depth: deepest nesting of a message.
    """

    def __init__(
        self,
        gateway: Gateway,
        dispatcher: Dispatcher,
        sessions: Sessions,
        principal: Principal,
        endpoint: Endpoint,
        out: EventStream,
        *,
        headers: Mapping[str, str] | None = None,
        url: Mapping[str, list[str]] | None = None,
        json_depth: int = jsonrpc.MAX_DEPTH,
    ) -> None:
        self._json_depth = json_depth
        self._gateway = gateway
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._principal = principal
        self._endpoint = endpoint
        self._out = out
        self._headers = headers or {}
        self._url = url or {}
        self._inflight: dict[bytes, asyncio.Task[None]] = {}
        self._listening: dict[bytes, Listening] = {}
        self.session: Session | None = None

    async def take(self, data: bytes) -> None:
        """One frame from the client: a message or, in 2025-03-26, a batch. Never raises."""
        try:
            jsonrpc.check_depth(data, self._json_depth)
            if jsonrpc.is_batch(data):
                await self._batch(jsonrpc.decode_batch(data))
            else:
                await self._message(jsonrpc.decode(data), None)
        except Malformed as bad:
            error = jsonrpc.error(bad.code, bad.message)
            await self._out.write(jsonrpc.error_response(bad.id, error))

    async def refuse(self, code: int, message: str) -> None:
        """Answer what could not even be read."""
        error = jsonrpc.error(code, message)
        await self._out.write(jsonrpc.error_response(jsonrpc.NULL, error))

    async def _batch(self, items: list[Raw]) -> None:
        if self.session is None or self.session.version != versions.BATCHES:
            raise Malformed(
                codes.INVALID_REQUEST,
                f"only revision {versions.BATCHES} has batches, after its handshake; send one "
                "message per line",
            )
        answers: list[bytes] = []
        for item in items:
            try:
                await self._message(jsonrpc.decode(item), answers)
            except Malformed as bad:
                error = jsonrpc.error(bad.code, bad.message)
                answers.append(jsonrpc.error_response(bad.id, error))
        tasks = [task for task in self._inflight.values() if task.get_name() == f"{id(answers)}"]
        if tasks:
            await asyncio.wait(tasks)
        if answers:
            await self._out.write(b"[" + b",".join(answers) + b"]")

    async def _message(self, message: Message, answers: list[bytes] | None) -> None:
        if not message.is_request:
            self._heard(message)
            return
        params, meta = opened(message)
        method = message.method if message.method is not UNSET else ""
        if method == "initialize":
            await self._initialize(message, params)
            return
        name = None if answers is None else f"{id(answers)}"
        work = self._run(message, method, params, meta, answers)
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._inflight[message.key] = task

    def _heard(self, message: Message) -> None:
        if message.method == "notifications/cancelled":
            try:
                request = jsonrpc.params_of(message).get("requestId")
            except Malformed:
                return
            key = bytes(memoryview(request)) if request is not None else b""
            task = self._inflight.get(key)
            if task is not None:
                cancel(task)
        elif self.session is not None:
            take(self._gateway, self.session, message)

    async def _initialize(self, message: Message, params: dict[str, Raw]) -> None:
        asked = text_of(params, "protocolVersion")
        if asked is None:
            raise Malformed(codes.INVALID_PARAMS, "params.protocolVersion is missing", message.key)
        if self.session is not None:
            raise Malformed(codes.INVALID_REQUEST, "initialize came twice", message.key)
        version = eras.negotiated(asked)
        capabilities = eras.capabilities_of(params.get("capabilities"))
        try:
            self.session = await self._sessions.open(
                self._principal, self._endpoint, version, capabilities, self._out
            )
        except TooMany as full:
            error = jsonrpc.error(codes.LIMITED, str(full))
            await self._out.write(jsonrpc.error_response(message.key, error))
            return
        context = exchange_of(self.session, self._out, {}, self._headers, self._url)
        described = self._gateway.described(context)
        result = eras.initialize_result(version, described)
        await self._out.write(jsonrpc.response(message.key, result))

    async def _run(
        self,
        message: Message,
        method: str,
        params: dict[str, Raw],
        meta: dict[str, Raw],
        answers: list[bytes] | None,
    ) -> None:
        try:
            data = await self._answer(message, method, params, meta)
            if data is None:
                return
            if answers is None:
                await self._out.write(data)
            else:
                answers.append(data)
        finally:
            if self._inflight.get(message.key) is asyncio.current_task():
                del self._inflight[message.key]

    async def _answer(
        self, message: Message, method: str, params: dict[str, Raw], meta: dict[str, Raw]
    ) -> bytes | None:
        session = self.session
        if not eras.is_modern(None, meta, method):
            if session is None:
                if method == "ping":
                    return jsonrpc.response(message.key, EMPTY_OBJECT)
                error = jsonrpc.error(codes.INVALID_REQUEST, "send initialize first")
                return jsonrpc.error_response(message.key, error)
            context = exchange_of(session, self._out, meta, self._headers, self._url)
            return encoded(
                message.key, await serve(self._dispatcher, session, context, message, params)
            )
        version = text_of(meta, meta_keys.PROTOCOL_VERSION)
        rejected = eras.refusal(method, version, params, meta, None)
        if rejected is not None:
            error = jsonrpc.error(rejected.code, rejected.message, rejected.data)
            return jsonrpc.error_response(message.key, error)
        face = PipeChannel(
            self._out,
            eras.capabilities_of(meta.get(meta_keys.CLIENT_CAPABILITIES)),
            text_of(meta, meta_keys.LOG_LEVEL),
            meta.get(PROGRESS_TOKEN),
        )
        context = RequestContext(
            principal=self._principal,
            client=face,
            era="modern",
            version=version or versions.MODERN_VERSIONS[-1],
            endpoint=self._endpoint,
            meta=meta,
            headers=self._headers,
            url=self._url,
        )
        if method == "subscriptions/listen":
            return await self._listen(context, message.key, params)
        try:
            reply = await self._dispatcher.answer(context, method, params)
        except OwnedByReplica:
            error = jsonrpc.error(codes.INVALID_PARAMS, "Invalid or expired requestState")
            reply = Reply(error=error)
        return encoded(message.key, reply)

    async def _listen(
        self, context: RequestContext, key: bytes, params: Mapping[str, Raw]
    ) -> bytes | None:
        try:
            listening, subscription = await start_listening(self._gateway, context, key, params)
        except (RpcError, ArmoryError) as failure:
            return encoded(key, Reply(error=error_object(failure)))
        self._listening[key] = listening
        reader = listening.stream.attach()
        try:
            while True:
                try:
                    found = await listening.stream.next(reader, 3_600.0)
                except EOFError:
                    return listening.result()
                if found is not None:
                    await self._out.write(found[1])
        finally:
            del self._listening[key]
            await asyncio.shield(self._gateway.changes.remove(subscription))

    async def drain(self, timeout_s: float) -> None:
        """End the listening requests properly, and let the others finish."""
        for listening in list(self._listening.values()):
            listening.stream.close()
        if self._inflight:
            await asyncio.wait(list(self._inflight.values()), timeout=timeout_s)

    async def close(self) -> None:
        """The other end is gone: cancel what is in flight, end the session."""
        tasks = list(self._inflight.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        self._out.close()
        if self.session is not None:
            await self._sessions.end(self.session)
