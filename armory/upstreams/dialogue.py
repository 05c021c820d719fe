"""The conversation inside one session: calls in flight, and what the upstream says in between.

Owns: request ids, routing of responses, progress, log messages and server-to-client requests to the
call that they belong to. Never imports a transport.

A stdio or HTTP+SSE upstream cannot say which call a request of its own belongs to. It is put to the
client of the only call in flight that could have caused it; where several could, it is refused, and
from then on such calls run one at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.upstreams.link import Call, ClientFace, ClientGone, Params, Reply
from armory.upstreams.messages import (
    EMPTY,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SUBSCRIPTION_ID,
    Garbage,
    Incoming,
    decode_any,
    encode,
    error_bytes,
    error_raw,
    object_of,
    params_of,
    result_bytes,
)
from armory.upstreams.session import LOG_LEVELS, Session

log = structlog.get_logger(__name__)

INTERACTIVE = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
_ASKING_METHODS = frozenset(("tools/call", "prompts/get", "resources/read"))
_BACKLOG = 1024
_GHOST_S = 2.0
_GHOST_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class Note:
    """A notification for one call's client."""

    method: str
    params: Params


Item = Reply | Note | UpstreamUnavailable


class Pending:
    """One call in flight: its inbox, and the requests that it made the upstream ask."""

    __slots__ = ("_inbox", "_scope", "_waiter", "asked", "call", "client", "id", "remaining")

    def __init__(self, request_id: int, call: Call, scope: asyncio.Timeout | None) -> None:
        self.id = request_id
        self.call = call
        self.client: ClientFace | None = call.client
        self.asked: set[asyncio.Task[None]] = set()
        self.remaining: float | None = None
        self._inbox: deque[Item] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._scope = scope

    def put(self, item: Item) -> None:
        """Hand over what came; notifications beyond the backlog are dropped, oldest first."""
        inbox = self._inbox
        if len(inbox) >= _BACKLOG:
            inbox.popleft()
        inbox.append(item)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def next(self) -> Item:
        """The next thing that came, in the order of the wire."""
        while not self._inbox:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._inbox.popleft()

    async def deliver(self, note: Note) -> None:
        """Hand a notification to the client, as long as it is there."""
        if self.client is not None:
            try:
                await self.client.notify(note.method, note.params)
            except ClientGone:
                self.client = None

    def pause(self) -> None:
        """Stop the deadline while the client is being asked."""
        scope = self._scope
        if scope is not None and self.remaining is None and (when := scope.when()) is not None:
            self.remaining = max(0.0, when - asyncio.get_running_loop().time())
            scope.reschedule(None)

    def resume(self) -> None:
        """Let the deadline run again."""
        scope = self._scope
        if scope is not None and self.remaining is not None and not scope.expired():
            scope.reschedule(asyncio.get_running_loop().time() + self.remaining)
        self.remaining = None


class Dialogue:
    """The calls in flight of one session.

    Args:
        session: whose conversation it is.
        send: puts a response to the upstream on the wire.
    """

    def __init__(self, session: Session, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._session = session
        self._send = send
        self._last_id = 0
        self._asks: dict[object, asyncio.Task[None]] = {}
        self._ghosts: dict[int, float] = {}
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
        if not answered and pending.client is not None and self._session.era == "legacy":
            # Its upstream may go on for a moment and ask on behalf of a call that is gone.
            self._ghosts[pending.id] = asyncio.get_running_loop().time() + _GHOST_S

    def turn_for(self, call: Call) -> AbstractAsyncContextManager[None] | None:
        """What `call` must hold while it runs, or None when it need not wait for others."""
        if not self.interactive or call.client is None or call.method not in _ASKING_METHODS:
            return None
        capabilities = call.client.capabilities
        return self._taken() if any(c in capabilities for c in INTERACTIVE.values()) else None

    @asynccontextmanager
    async def _taken(self) -> AsyncGenerator[None]:
        """One turn; it begins when no abandoned call can ask any more."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            while (until := max(self._ghosts.values(), default=0.0)) > loop.time():  # noqa: ASYNC110 # it waits for time
                await asyncio.sleep(min(until - loop.time(), _GHOST_STEP_S))
            yield

    def fail_all(self, error: UpstreamUnavailable) -> None:
        """End every call in flight with `error`."""
        for pending in tuple(self.pending.values()):
            pending.put(error)

    def route(self, message: Incoming, via: Pending | None = None) -> tuple[Pending, Item] | None:
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
            self._session.heard.notification(message.method, params)
        return None

    def _response(self, message: Incoming, via: Pending | None) -> tuple[Pending, Item] | None:
        pending = self.pending.get(message.id) if type(message.id) is int else None
        if pending is None:
            if via is not None and message.id is None and message.error is not EMPTY:
                pending = via
            else:
                if self._ghosts.pop(message.id, None) is None:  # pyright: ignore[reportArgumentType, reportCallIssue]
                    log.info("upstream_answer_unexpected", upstream=self._session.server)
                return None
        return pending, self.reply_of(message)

    def reply_of(self, message: Incoming) -> Item:
        """The reply in a response, or the error that it has none."""
        if message.error is not EMPTY:
            return Reply(error=message.error, era=self._session.era)
        if message.result is not EMPTY:
            return Reply(result=message.result, era=self._session.era)
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
            return target, Note(method, params) if _loud_enough(params, wants) else None
        if via is not None:
            return (via, Note(method, params)) if via.client is not None else None
        listener = self._listener(params)
        return None if listener is None else (listener, Note(method, params))

    def _progress(self, params: Params) -> tuple[Pending, Note | None] | None:
        token = params.get("progressToken")
        try:
            known = None if token is None else decode_any(token)
        except ValueError:
            known = None
        pending = self.pending.get(known) if type(known) is int else None
        if pending is None or pending.client is None:
            return None
        own = pending.client.progress_token
        if own is None:
            return pending, None
        return pending, Note("notifications/progress", {**params, "progressToken": own})

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
            self._session.spawn(self._answer(result_bytes(request_id, Raw(b"{}"))))
            return
        if self._session.era == "modern":
            log.warning("upstream_request_ignored", upstream=self._session.server, method=method)
            return
        if via is None:
            self.interactive = self.interactive or method in INTERACTIVE
        pending, why = self._attribute(method, via)
        if pending is None or pending.client is None:
            code = INTERNAL_ERROR if method in INTERACTIVE and why else METHOD_NOT_FOUND
            log.info("upstream_request_refused", upstream=self._session.server, method=method)
            refusal = error_raw(code, why or f"{method} is not available here")
            self._session.spawn(self._answer(error_bytes(request_id, refusal)))
            return
        work = self._ask(pending, pending.client, request_id, method, params)
        task = asyncio.get_running_loop().create_task(work)
        key = (type(request_id), request_id)
        self._asks[key] = task
        pending.asked.add(task)

        def done(ended: asyncio.Task[None]) -> None:
            self._asks.pop(key, None)
            pending.asked.discard(ended)
            if not ended.cancelled() and (error := ended.exception()) is not None:
                log.warning("upstream_ask_failed", upstream=self._session.server, error=repr(error))

        task.add_done_callback(done)

    def _attribute(self, method: str, via: Pending | None) -> tuple[Pending | None, str]:
        needed = INTERACTIVE.get(method)

        def able(pending: Pending) -> bool:
            client = pending.client
            return client is not None and (needed is None or needed in client.capabilities)

        if via is not None:
            return (via, "") if able(via) else (None, "")
        now = asyncio.get_running_loop().time()
        self._ghosts = {ghost: until for ghost, until in self._ghosts.items() if until > now}
        candidates = [pending for pending in self.pending.values() if able(pending)]
        if len(candidates) == 1 and not self._ghosts:
            return candidates[0], ""
        if not candidates:
            return None, ""
        return None, (
            f"{method} cannot be attributed: several calls are in flight on this session, and its "
            "transport does not say which one asks"
        )

    async def _ask(
        self, pending: Pending, client: ClientFace, request_id: Any, method: str, params: Params
    ) -> None:
        pending.pause()
        try:
            answer = await client.ask(method, params)
        except ClientGone:
            data = error_bytes(request_id, error_raw(INTERNAL_ERROR, "the client is gone"))
        else:
            if answer.error is not None:
                data = error_bytes(request_id, answer.error)
            else:
                data = result_bytes(request_id, answer.result or Raw(b"{}"))
        finally:
            if len(pending.asked) <= 1:
                pending.resume()
        await self._answer(data)

    async def _answer(self, data: bytes) -> None:
        try:
            await self._send(data)
        except UpstreamUnavailable as error:
            log.info("upstream_answer_unsent", upstream=self._session.server, error=str(error))

    def _withdraw(self, params: Params) -> None:
        try:
            known = decode_any(params.get("requestId", Raw(b"null")))
        except ValueError:
            return
        if isinstance(known, int | str | float):
            task = self._asks.get((type(known), known))
            if task is not None:
                task.cancel()


def _loud_enough(params: Params, wanted: str | None) -> bool:
    if wanted is None:
        return False
    try:
        level = decode_any(params.get("level", Raw(b"null")))
    except ValueError:
        return False
    rank = LOG_LEVELS.get(level) if isinstance(level, str) else None
    return rank is None or rank >= LOG_LEVELS.get(wanted, 0)


def cancelled_params(request_id: int, reason: str) -> Params:
    """Parameters of `notifications/cancelled` for a call of ours."""
    return {"requestId": Raw(b"%d" % request_id), "reason": Raw(encode(reason))}


__all__ = ["Dialogue", "Garbage", "Item", "Note", "Pending", "cancelled_params"]
