"""The conversation inside one session: calls in flight, and what the upstream says in between.

Owns: request ids, routing of responses, progress, log messages and server-to-client requests to the
call that they belong to. Never imports a transport.

A stdio or HTTP+SSE upstream cannot say which call a request of its own belongs to. It is put to the
client of the only call in flight that could have caused it; where several could, it is refused, and
from then on such calls run one at a time. A call that was given up may still make its upstream ask
for a moment: until then no other call that could be asked is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import structlog
from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.protocol import jsonrpc
from armory.protocol.client_requests import CAPABILITY
from armory.protocol.codes import INTERNAL_ERROR, METHOD_NOT_FOUND
from armory.protocol.link import Call, ClientChannel, ClientGone, Params, Reply
from armory.protocol.loglevels import loud_enough
from armory.protocol.meta import PROGRESS_TOKEN, SUBSCRIPTION_ID
from armory.protocol.rawjson import EMPTY_OBJECT, encode, object_of, text_of, value
from armory.protocol.upstream_messages import (
    ABSENT,
    DEEPEST,
    OutlinedMessage,
    TruncatedMessage,
    UnreadableMessage,
    UpstreamMessage,
    params_of,
)
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.pending import Item, Note, Pending

log = structlog.get_logger(__name__)

_ASKING_METHODS = frozenset(("tools/call", "prompts/get", "resources/read"))
_GHOST_S = 2.0
_GHOST_STEP_S = 0.1
_ROOTS_S = 30.0
"""So long after a client said that its roots changed an upstream may ask that client for them."""


class RequestMultiplexer:
    """The calls in flight of one session.

    Args:
        session: whose conversation it is.
        send: puts a response to the upstream on the wire.
        exact: whether the transport tells which call asks.
    """

    def __init__(
        self, session: BaseLink, send: Callable[[bytes], Awaitable[None]], *, exact: bool = False
    ) -> None:
        self._session = session
        self._send = send
        self._exact = exact
        self._rooted: tuple[ClientChannel, float] | None = None
        self._last_id = 0
        self._asks: dict[object, asyncio.Task[None]] = {}
        self._abandoned: dict[int, float] = {}
        self._unbound: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.pending: dict[int, Pending] = {}
        self.interactive = False

    def open(self, call: Call, scope: asyncio.Timeout | None = None) -> Pending:
        """Give a call its id and its place."""
        self._last_id += 1
        pending = Pending(self._last_id, call, scope)
        self.pending[pending.id] = pending
        return pending

    def close(self, pending: Pending, *, answered: bool) -> None:
        """The call is over; whatever still asks on its behalf stops."""
        self.pending.pop(pending.id, None)
        for task in pending.asked:
            task.cancel()
        if not answered and self._session.era == "legacy" and _may_be_asked(pending.call):
            # Its upstream may go on for a moment and ask on behalf of a call that is gone.
            self._abandoned[pending.id] = asyncio.get_running_loop().time() + _GHOST_S

    def turn_for(self, call: Call) -> AbstractAsyncContextManager[None] | None:
        """What `call` must hold while it runs, or None when it need not wait for others."""
        if not (self.interactive or self._abandoned) or not _may_be_asked(call):
            return None
        if self.interactive:
            return self._taken()
        # Where many share a session, those who gave nothing up would wait for those who did.
        alone = self._session.spec.isolation != "shared"
        return self._after_ghosts() if alone and not self._exact else None

    @asynccontextmanager
    async def _taken(self) -> AsyncGenerator[None]:
        """One turn; it begins when no abandoned call can ask any more."""
        async with self._turn, self._after_ghosts():
            yield

    @asynccontextmanager
    async def _after_ghosts(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()
        while (until := max(self._abandoned.values(), default=0.0)) > loop.time():  # noqa: ASYNC110 # it waits for time
            await asyncio.sleep(min(until - loop.time(), _GHOST_STEP_S))
        self._abandoned.clear()
        yield

    def roots_changed(self, client: ClientChannel) -> None:
        """A client said so: what the upstream asks about roots for a while is meant for it."""
        self._rooted = client, asyncio.get_running_loop().time() + _ROOTS_S

    def fail_all(self, error: UpstreamUnavailable) -> None:
        """End every call in flight with `error`."""
        for pending in tuple(self.pending.values()):
            pending.put(error)
        for task in self._unbound:
            task.cancel()

    def route(
        self, message: UpstreamMessage, via: Pending | None = None
    ) -> tuple[Pending, Item] | None:
        """Find out for whom a message is; requests of the upstream are served from here.

        Args:
            message: what came.
            via: the call on whose own stream it came, or None.
        """
        if message.method is None:
            return self._response(message, via)
        params = params_of(message)
        if message.id is not None:
            self._serve(message.id, message.method, params, via)
            return None
        if message.method == "notifications/cancelled":
            self._withdraw(params)
            return None
        target = self._target(message.method, params, via)
        if target is not None:
            pending, note = target
            return (pending, note) if note is not None else None
        if message.method != "notifications/progress":
            self._session.notified(message.method, params)
        return None

    def _response(
        self, message: UpstreamMessage, via: Pending | None
    ) -> tuple[Pending, Item] | None:
        pending = self.pending.get(message.id) if type(message.id) is int else None
        if pending is None:
            if via is not None and message.id is None and message.error is not ABSENT:
                pending = via
            else:
                if self._abandoned.pop(message.id, None) is None:  # pyright: ignore[reportArgumentType, reportCallIssue]
                    log.info("upstream_answer_unexpected", upstream=self._session.server)
                return None
        return pending, self.reply_of(message, pending.call.method)

    def reply_of(self, message: UpstreamMessage, method: str) -> Item:
        """The reply in a response to a call of `method`, or the error that it has none."""
        # A list loses no more than the entry that was too deep.
        if isinstance(message, TruncatedMessage) and not method.endswith("/list"):
            why = f"the answer is nested deeper than {DEEPEST} levels"
            return Reply(error=jsonrpc.error(INTERNAL_ERROR, why), era=self._session.era)
        if message.error is not ABSENT:
            return Reply(error=message.error, era=self._session.era)
        if message.result is not ABSENT:
            outline = message.outline if isinstance(message, OutlinedMessage) else None
            return Reply(message.result, era=self._session.era, short=outline)
        return self._session.unavailable("it answered with neither 'result' nor 'error'")

    def _target(
        self, method: str, params: Params, via: Pending | None
    ) -> tuple[Pending, Note | None] | None:
        if method == "notifications/progress":
            return self._progress(params)
        if method == "notifications/message":
            target = via if via is not None else self._only_call()
            if target is None or target.client is None:
                return None
            wants = target.client.log_level
            loud = loud_enough(text_of(params, "level"), wants)
            return target, Note(method, params) if loud else None
        if via is not None:
            return (via, Note(method, params)) if via.client is not None else None
        listener = self._listener(params)
        return None if listener is None else (listener, Note(method, params))

    def _progress(self, params: Params) -> tuple[Pending, Note | None] | None:
        token = params.get(PROGRESS_TOKEN)
        try:
            known = None if token is None else value(token)
        except ValueError:
            known = None
        pending = self.pending.get(known) if type(known) is int else None
        if pending is None or pending.client is None:
            return None
        own = pending.client.progress_token
        if own is None:
            return pending, None
        return pending, Note("notifications/progress", {**params, PROGRESS_TOKEN: own})

    def _listener(self, params: Params) -> Pending | None:
        if self._session.era != "modern" or "_meta" not in params:
            return None
        known = object_of(params["_meta"]).get(SUBSCRIPTION_ID)
        if isinstance(known, str) and known.isdigit():
            known = int(known)
        return self.pending.get(known) if type(known) is int else None

    def _only_call(self) -> Pending | None:
        owned = [p for p in self.pending.values() if p.client is not None]
        return owned[0] if len(owned) == 1 else None

    # --- requests of the upstream

    def _serve(self, request_id: Any, method: str, params: Params, via: Pending | None) -> None:
        if method == "ping":
            self._session.spawn(self._answer(jsonrpc.response(encode(request_id), EMPTY_OBJECT)))
            return
        if self._session.era == "modern":
            log.warning("upstream_request_ignored", upstream=self._session.server, method=method)
            return
        if via is None:
            self.interactive = self.interactive or method in CAPABILITY
        rooted = self._asks_about_news(method, via)
        if rooted is not None:
            self._put(rooted, None, request_id, method, params)
            return
        pending, why = self._attribute(method, via)
        if pending is None or pending.client is None:
            code = INTERNAL_ERROR if method in CAPABILITY and why else METHOD_NOT_FOUND
            log.info("upstream_request_refused", upstream=self._session.server, method=method)
            refusal = jsonrpc.error(code, why or f"{method} is not available here")
            self._session.spawn(self._answer(jsonrpc.error_response(encode(request_id), refusal)))
            return
        self._put(pending.client, pending, request_id, method, params)

    def _asks_about_news(self, method: str, via: Pending | None) -> ClientChannel | None:
        """Whose roots a question is about that follows the news that they changed."""
        if method != "roots/list" or via is not None or self._rooted is None:
            return None
        client, until = self._rooted
        if until > asyncio.get_running_loop().time():
            return client
        self._rooted = None
        return None

    def _put(
        self,
        client: ClientChannel,
        pending: Pending | None,
        request_id: Any,
        method: str,
        params: Params,
    ) -> None:
        """Put a question to a client, beside everything else."""
        work = self._ask(pending, client, request_id, method, params)
        task = asyncio.get_running_loop().create_task(work)
        key = (type(request_id), request_id)
        self._asks[key] = task
        asking = pending.asked if pending is not None else self._unbound
        asking.add(task)

        def done(ended: asyncio.Task[None]) -> None:
            self._asks.pop(key, None)
            asking.discard(ended)
            if not ended.cancelled() and (error := ended.exception()) is not None:
                log.warning("upstream_ask_failed", upstream=self._session.server, error=repr(error))

        task.add_done_callback(done)

    def _attribute(self, method: str, via: Pending | None) -> tuple[Pending | None, str]:
        needed = CAPABILITY.get(method)

        def able(pending: Pending) -> bool:
            client = pending.client
            return client is not None and (needed is None or needed in client.capabilities)

        if via is not None:
            return (via, "") if able(via) else (None, "")
        now = asyncio.get_running_loop().time()
        self._abandoned = {ghost: until for ghost, until in self._abandoned.items() if until > now}
        candidates = [pending for pending in self.pending.values() if able(pending)]
        if len(candidates) == 1 and not self._abandoned:
            return candidates[0], ""
        if not candidates:
            return None, ""
        return None, (
            f"{method} cannot be attributed: several calls are in flight on this session, and its "
            "transport does not say which one asks"
        )

    async def _ask(
        self,
        pending: Pending | None,
        client: ClientChannel,
        request_id: Any,
        method: str,
        params: Params,
    ) -> None:
        if pending is not None:
            pending.pause()
        try:
            answer = await client.ask(method, params)
        except ClientGone:
            refusal = jsonrpc.error(INTERNAL_ERROR, "the client is gone")
            data = jsonrpc.error_response(encode(request_id), refusal)
        else:
            if answer.error is not None:
                data = jsonrpc.error_response(encode(request_id), answer.error)
            else:
                data = jsonrpc.response(encode(request_id), answer.result or EMPTY_OBJECT)
        finally:
            if pending is not None and len(pending.asked) <= 1:
                pending.resume()
        await self._answer(data)

    async def _answer(self, data: bytes) -> None:
        try:
            await self._send(data)
        except UpstreamUnavailable as error:
            log.info("upstream_answer_unsent", upstream=self._session.server, error=str(error))

    def _withdraw(self, params: Params) -> None:
        try:
            known = value(params.get("requestId", Raw(b"null")))
        except ValueError:
            return
        if isinstance(known, int | str | float):
            task = self._asks.get((type(known), known))
            if task is not None:
                task.cancel()


def _may_be_asked(call: Call) -> bool:
    """Whether the upstream may ask the client something because of this call."""
    if call.client is None or call.method not in _ASKING_METHODS:
        return False
    return any(name in call.client.capabilities for name in CAPABILITY.values())


def cancelled_params(request_id: int, reason: str) -> Params:
    """Parameters of `notifications/cancelled` for a call of ours."""
    return {"requestId": Raw(b"%d" % request_id), "reason": Raw(encode(reason))}


__all__ = ["Item", "Note", "Pending", "RequestMultiplexer", "UnreadableMessage", "cancelled_params"]
