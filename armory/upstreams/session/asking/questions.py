"""Questions of an upstream to clients (sampling, elicitation, roots) within one legacy session.

Owns: putting a question to the client whose it is, what it is answered, and withdrawing it. Never
imports a transport.

In a session that is one client's own, whatever is asked is put to that client, on the request that
is open or, where none is, outside of requests. In one that several clients share, `attribution`
says whose it is; what is nobody's is refused.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from msgspec import Raw

from armory.logger import Logger
from armory.protocol import jsonrpc
from armory.protocol.capabilities import CAPABILITY
from armory.protocol.codes import INTERNAL_ERROR, METHOD_NOT_FOUND
from armory.protocol.link import (
    HEARS_PROGRESS,
    Call,
    CancelReason,
    ClientChannel,
    ClientGone,
    Params,
)
from armory.protocol.meta import PROGRESS_TOKEN
from armory.protocol.methods import PROGRESS
from armory.protocol.rawjson import EMPTY_OBJECT, encode, members_or_none, scalar
from armory.tasks import spawn
from armory.upstreams.session.asking.attribution import Attribution
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lane import Turn
from armory.upstreams.session.pending import Pending
from armory.upstreams.session.replies import Replies
from armory.upstreams.session.turns import asks_possible

log = Logger(__name__)

_FIRST_CALL_S = 10.0
"""How long a question at the start of a session waits for a first call that it can belong to."""
_OPEN = 64
"""Questions of one session that wait for people, or for its first call, at once."""
_OPEN_BYTES = 16 << 20
"""What they may hold all together; one alone may be larger."""
_METHOD_CHARS = 100
"""Characters that are quoted of a method's name, which comes from the upstream."""

_NO_ROOTS = Raw(b'{"roots":[]}')


@dataclass(frozen=True, slots=True)
class Question:
    """One request of an upstream to a client.

    Attributes:
        key: its id as JSON, as it goes into the answer and as a cancellation names it.
        method, params: as they came.
    """

    key: bytes
    method: str
    params: Params

    @property
    def size(self) -> int:
        """What it holds in memory, in bytes."""
        return len(self.key) + sum(len(memoryview(raw)) for raw in self.params.values())


class Questions:
    """The requests of one session's upstream to clients.

    Args:
        link: whose session it is.
        send: puts a response to the upstream on the wire.
        pending: the calls in flight.
        attribution: whose they are.
    """

    def __init__(
        self,
        link: BaseLink,
        send: Callable[[bytes], Awaitable[None]],
        pending: Mapping[int, Pending],
        attribution: Attribution,
    ) -> None:
        self._link = cast("BaseLink", weakref.proxy(link))  # it has this one: no cycle
        self._budget = link.budget
        self._replies = Replies(link, send)
        self._pending = pending
        self._attribution = attribution
        self._open: dict[asyncio.Task[None], bytes] = {}  # by task: a key may come twice
        self._early = self._held = 0
        self._unbound: set[asyncio.Task[None]] = set()
        self._began = asyncio.Event()

    def began(self, call: Call) -> None:
        """A call is in flight."""
        if not self._began.is_set() and asks_possible(call):
            self._began.set()

    def outlive(self, pending: Pending) -> None:
        """A call was answered before the questions that it caused: these stay open until they are
        answered or the session ends.
        """
        self._unbound |= pending.questions
        for task in pending.questions:
            task.add_done_callback(self._unbound.discard)

    def serve(self, question: Question, via: Pending | None) -> None:
        """Have a client answer a question, at once or in a task.

        Args:
            question: what the upstream asks.
            via: the call on whose own stream it came, or None.
        """
        if question.method == "ping":
            self._replies.send_beside(jsonrpc.response(question.key, EMPTY_OBJECT))
        elif self._link.era == "modern":
            self._budget.say(log.warning, "upstream_request_ignored", method=question.method)
        elif self._full(question):
            self.refuse(question, INTERNAL_ERROR, "too many questions of this server are open")
        elif via is not None or not self._put_without_call(question):
            self._put_to_caller(question, via)

    def _full(self, question: Question) -> bool:
        """Whether too many questions are open for another one."""
        too_large = self._held > 0 and self._held + question.size > _OPEN_BYTES
        return too_large or len(self._open) + self._early >= _OPEN

    def refuse(self, question: Question, code: int, why: str) -> None:
        """Answer a question with an error."""
        self._budget.say(log.info, "upstream_request_refused", method=question.method)
        refusal = jsonrpc.error(code, why)
        self._replies.send_beside(jsonrpc.error_response(question.key, refusal))

    def _put_without_call(self, question: Question) -> bool:
        """Put a question to a client without knowing the call it belongs to; returns whether one
        answers it.
        """
        method, link = question.method, self._link
        self._attribution.note_question(method)
        informer = self._attribution.informer(method)
        if informer is not None:
            self._put(question, informer)
        elif link.client is not None:
            self._put_to_own(question, link.client)
        elif method in CAPABILITY and self._first_call_comes():
            self._early += 1
            self._held += question.size
            link.spawn(self._with_first_call(question), "early question")
        else:
            return False
        return True

    def _put_to_caller(self, question: Question, via: Pending | None) -> None:
        """Put a question to the client of the call that it belongs to; refuse it where that is
        unknown.

        Args:
            question: what the upstream asks.
            via: the call on whose own stream it came, or None.
        """
        method = question.method
        pending, why = self._attribution.cause(method, via)
        if pending is None and not why and method == "roots/list" and self._link.owned_by_gateway:
            self._replies.send_beside(jsonrpc.response(question.key, _NO_ROOTS))
            return
        if pending is not None and pending.client is not None:
            self._put(question, pending.client, pending)
            return
        code = INTERNAL_ERROR if method in CAPABILITY and why else METHOD_NOT_FOUND
        self.refuse(question, code, why or f"{method[:_METHOD_CHARS]} is not available here")

    def _first_call_comes(self) -> bool:
        """Whether the call that the session was opened for is not in flight yet."""
        clients = not self._link.owned_by_gateway or self._link.spec.isolation == "shared"
        return clients and not self._pending and not self._began.is_set()

    async def _with_first_call(self, question: Question) -> None:
        """Put a question to the client of the session's first call, which it was opened for."""
        try:
            async with asyncio.timeout(_FIRST_CALL_S):
                await self._began.wait()
        except TimeoutError:
            self._began.set()
        finally:
            self._early -= 1
            self._held -= question.size
        self.serve(question, None)

    def withdraw(self, params: Params) -> None:
        """The upstream cancelled a question (`notifications/cancelled`).

        Args:
            params: of that notification.
        """
        withdrawn = encode(scalar(params.get("requestId")))
        for task, key in self._open.items():
            if key == withdrawn:
                task.cancel(CancelReason.of(params))

    def began_anew(self) -> None:
        """The session was replaced by a new one, which may use the same ids: questions of the old
        one are dropped.
        """
        for task in self._open:
            task.cancel()
        self._attribution.began_anew()

    def cancel_unbound(self) -> None:
        """Cancel the questions that belong to no call."""
        for task in self._unbound:
            task.cancel()

    def _put_to_own(self, question: Question, client: ClientChannel) -> None:
        """Put a question to the session's only client; the deadlines of its calls stop
        meanwhile.
        """
        calls = [call for call in self._pending.values() if asks_possible(call.call)]
        self._put(question, calls[0].client or client if calls else client, *calls)

    def _put(self, question: Question, client: ClientChannel, *waiting: Pending) -> None:
        """Put a question to a client, in a task of its own.

        Args:
            question: what the upstream asks.
            client: whom.
            waiting: the calls that may wait for the answer; asked no longer when the only one of
                them is given up.
        """
        work = self._ask(question, client, waiting)
        task = spawn(work, f"{question.method[:_METHOD_CHARS]} from {self._link.server}")
        self._open[task] = question.key
        self._held += question.size
        asking = waiting[0].questions if len(waiting) == 1 else self._unbound
        asking.add(task)

        def done(ended: asyncio.Task[None]) -> None:
            del self._open[ended]
            self._held -= question.size
            asking.discard(ended)

        task.add_done_callback(done)

    async def _ask(
        self, question: Question, client: ClientChannel, waiting: tuple[Pending, ...]
    ) -> None:
        for pending in waiting:
            pending.pause()
        token = (members_or_none(question.params.get("_meta")) or {}).get(PROGRESS_TOKEN)
        if token is not None:
            HEARS_PROGRESS.set(partial(self._progressed, token))
        turn = self._attribution.turn_of(waiting[0]) if len(waiting) == 1 else None
        try:
            data = await _answered(question, client, turn)
            if turn is not None:
                await self._attribution.go_on(turn)
        finally:
            for pending in waiting:
                pending.resume()
        refusal = await self._replies.send(data)
        if refusal is not None and len(waiting) == 1:  # which of several asked is not known
            waiting[0].fail(refusal)

    def _progressed(self, token: Raw, params: Params) -> None:
        self._replies.send_beside(jsonrpc.notification(PROGRESS, {**params, PROGRESS_TOKEN: token}))


async def _answered(question: Question, client: ClientChannel, turn: Turn | None) -> bytes:
    """The response to a question: what its client answers, or that it is gone."""
    if turn is not None:
        turn.begin_asking()
    try:
        answer = await client.ask(question.method, question.params)
    except ClientGone:
        gone = jsonrpc.error(INTERNAL_ERROR, "the client is gone")
        return jsonrpc.error_response(question.key, gone)
    finally:
        if turn is not None:
            turn.end_asking()
    if answer.error is not None:
        return jsonrpc.error_response(question.key, answer.error)
    return jsonrpc.response(question.key, answer.result or EMPTY_OBJECT)
