"""What an upstream asks of clients: sampling, elicitation and roots, within one legacy session.

Owns: whose question it is, putting it to that client, what it is answered, and withdrawing it.
Never imports a transport.

In a session that is one client's own, whatever is asked is put to that client, on the request that
is open or, where none is, outside of requests. In a session that several clients share, a stdio or
HTTP+SSE upstream cannot say which call a request of its own belongs to. It is put to the
client of the only call in flight that could have caused it (`turns` sees to that); where several
could, or a call that another principal gave up, it is refused.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
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
from armory.upstreams.session.abandoned import AbandonedCalls
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.pending import Pending
from armory.upstreams.session.replies import Replies
from armory.upstreams.session.turns import Turns, asks_possible

log = Logger(__name__)

_FIRST_CALL_S = 10.0
"""How long a question at the start of a session waits for a first call that it can belong to."""
_OPEN = 64
"""Questions of one session that wait for people, or for its first call, at once."""
_OPEN_BYTES = 16 << 20
"""What they may hold all together; one alone may be larger."""
_SAID_CHARS = 100
"""Of a method, which an upstream makes up."""
_ROOTS_S = 30.0
"""How long `roots/list` goes to the client that last said that its roots changed."""

_NO_ROOTS = Raw(b'{"roots":[]}')


@dataclass(frozen=True, slots=True)
class Question:
    """One request of an upstream's.

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
        exact: whether the transport tells which call asks.
    """

    def __init__(
        self,
        link: BaseLink,
        send: Callable[[bytes], Awaitable[None]],
        pending: Mapping[int, Pending],
        *,
        exact: bool,
    ) -> None:
        self._link = cast("BaseLink", weakref.proxy(link))  # it has this one: no cycle
        self._budget = link.budget
        self._replies = Replies(link, send)
        self._pending = pending
        self._exact = exact
        self._roots_changed_by: tuple[ClientChannel, float] | None = None
        self._turns = Turns(link.silent, partial(_busy, pending))
        self._given_up = AbandonedCalls()
        self._may_ask = AbandonedCalls()  # those of them that could make it ask
        self._open: dict[asyncio.Task[None], bytes] = {}  # by task: a key may come twice
        self._early = self._held = 0
        self._unbound: set[asyncio.Task[None]] = set()
        self._began = asyncio.Event()

    def turn_for(self, call: Call) -> AbstractAsyncContextManager[None] | None:
        """What `call` must hold while it runs, or None when it need not wait for others."""
        turns, link = self._turns, self._link
        if self._exact and not turns.interactive:
            return None
        if link.client is not None or link.era == "modern" or not asks_possible(call):
            return None
        if turns.interactive:
            return turns.one_at_a_time()
        # Where many share a session, those who gave nothing up would wait for those who did.
        return turns.alone_at_first(call, patient=link.spec.isolation != "shared")

    def began(self, call: Call) -> None:
        """A call is in flight."""
        if not self._began.is_set() and asks_possible(call):
            self._began.set()

    def outlive(self, pending: Pending) -> None:
        """A call was answered before the questions that it caused: they stay open until they are
        answered or the session ends.
        """
        self._unbound |= pending.questions
        for task in pending.questions:
            task.add_done_callback(self._unbound.discard)

    def given_up(self, pending: Pending) -> None:
        """A call ended unanswered; for a moment the upstream may still ask because of it."""
        if self._link.era != "legacy" or pending.call.client is None:
            return
        self._given_up.add(pending.id, pending.call.caller)
        if asks_possible(pending.call):
            self._turns.given_up(pending.id)
            self._may_ask.add(pending.id, pending.call.caller)

    def ended(self) -> None:
        """A call has ended."""
        self._turns.ended()

    def answered_late(self, request_id: object) -> bool:
        """Whether a response that nobody waits for belongs to a call that was given up."""
        known = self._may_ask.answered(request_id)
        self._given_up.answered(request_id)
        return self._turns.answered_late(request_id) or known

    def may_be_anothers(self, call: Call) -> bool:
        """Whether a log line that comes during this call may belong to a call that another
        principal gave up.
        """
        return self._given_up.of_others(call.caller)

    def roots_changed(self, client: ClientChannel) -> None:
        """A client said so: what the upstream asks about roots for a while is meant for it."""
        self._roots_changed_by = client, asyncio.get_running_loop().time() + _ROOTS_S

    def serve(self, question: Question, via: Pending | None) -> None:
        """Have somebody answer it, at once or beside everything else.

        Args:
            question: what the upstream asks.
            via: the call on whose own stream it came, or None.
        """
        if question.method == "ping":
            self._replies.send_beside(jsonrpc.response(question.key, EMPTY_OBJECT))
        elif self._link.era == "modern":
            self._budget.say(log.warning, "upstream_request_ignored", method=question.method)
        elif self._full(question):
            self._refuse(question, INTERNAL_ERROR, "too many questions of this server are open")
        elif via is not None or not self._put_without_call(question):
            self._put_to_caller(question, via)

    def _full(self, question: Question) -> bool:
        """Whether there is no room for another one."""
        too_large = self._held > 0 and self._held + question.size > _OPEN_BYTES
        return too_large or len(self._open) + self._early >= _OPEN

    def _refuse(self, question: Question, code: int, why: str) -> None:
        self._budget.say(log.info, "upstream_request_refused", method=question.method)
        refusal = jsonrpc.error(code, why)
        self._replies.send_beside(jsonrpc.error_response(question.key, refusal))

    def _put_without_call(self, question: Question) -> bool:
        """Whether somebody answers it, or will, whichever call it belongs to."""
        method, link = question.method, self._link
        self._turns.interactive = self._turns.interactive or method in CAPABILITY
        informer = self._roots_informer(method)
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
        """Put it to the client of the call that it belongs to; refused where that cannot be told.

        Args:
            question: what the upstream asks.
            via: the call on whose own stream it came, or None.
        """
        method = question.method
        pending, why = self._attribute(method, via)
        if pending is None and not why and method == "roots/list" and self._link.owned_by_gateway:
            self._replies.send_beside(jsonrpc.response(question.key, _NO_ROOTS))
            return
        if pending is not None and pending.client is not None:
            self._put(question, pending.client, pending)
            return
        code = INTERNAL_ERROR if method in CAPABILITY and why else METHOD_NOT_FOUND
        self._refuse(question, code, why or f"{method[:_SAID_CHARS]} is not available here")

    def _first_call_comes(self) -> bool:
        """Whether the session was opened for a call that is not in flight yet."""
        clients = not self._link.owned_by_gateway or self._link.spec.isolation == "shared"
        return clients and not self._pending and not self._began.is_set()

    async def _with_first_call(self, question: Question) -> None:
        """Put it to the client of the first call of the session, which it was opened for."""
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
        """The upstream needs no answer any more: its `notifications/cancelled`.

        Args:
            params: of that notification.
        """
        withdrawn = encode(scalar(params.get("requestId")))
        for task, key in self._open.items():
            if key == withdrawn:
                task.cancel(CancelReason.said(params))

    def began_anew(self) -> None:
        """The session is another one by now, whose upstream may number its questions as the one
        before did: what that asked is answered no more, nor does it ask because of earlier calls.
        """
        for task in self._open:
            task.cancel()
        self._given_up, self._may_ask = AbandonedCalls(), AbandonedCalls()

    def cancel_unbound(self) -> None:
        """Stop asking what belongs to no call."""
        for task in self._unbound:
            task.cancel()

    def _put_to_own(self, question: Question, client: ClientChannel) -> None:
        """Put it to the one client of the session; the deadlines of its calls wait meanwhile."""
        calls = [call for call in self._pending.values() if asks_possible(call.call)]
        self._put(question, calls[0].client or client if calls else client, *calls)

    def _roots_informer(self, method: str) -> ClientChannel | None:
        """The client whose `roots/list_changed` this `roots/list` follows; None: none does."""
        if method != "roots/list" or self._roots_changed_by is None:
            return None
        client, until = self._roots_changed_by
        if until > asyncio.get_running_loop().time():
            return client
        self._roots_changed_by = None
        return None

    def _attribute(self, method: str, via: Pending | None) -> tuple[Pending | None, str]:
        """(call that caused the question, ""), or (None, why that cannot be told; "" where no
        client could answer).
        """
        needed = CAPABILITY.get(method)

        def able(pending: Pending) -> bool:
            client = pending.client
            return client is not None and (needed is None or needed in client.capabilities)

        if via is not None:
            return (via, "") if able(via) else (None, "")
        candidates = [pending for pending in self._pending.values() if able(pending)]
        if not candidates:
            return None, ""
        if len(candidates) == 1:
            if self._may_ask.of_others(candidates[0].call.caller):
                return None, (
                    f"{method} cannot be attributed: another caller's call on this session was "
                    "given up and not answered, and may be the one that asks; the upstream's "
                    "`isolation: principal` gives each caller a session of its own"
                )
            if not self._turns.abandoned():
                return candidates[0], ""
        return None, (
            f"{method} cannot be attributed: several calls are in flight on this session, and its "
            "transport does not say which one asks"
        )

    def _put(self, question: Question, client: ClientChannel, *waiting: Pending) -> None:
        """Put it to a client, beside everything else.

        Args:
            question: what the upstream asks.
            client: whom.
            waiting: the calls that may wait for the answer; asked no longer when the only one of
                them is given up.
        """
        work = self._ask(question, client, waiting)
        task = spawn(work, f"{question.method[:_SAID_CHARS]} from {self._link.server}")
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
        try:
            answer = await client.ask(question.method, question.params)
        except ClientGone:
            refusal = jsonrpc.error(INTERNAL_ERROR, "the client is gone")
            data = jsonrpc.error_response(question.key, refusal)
        else:
            if answer.error is not None:
                data = jsonrpc.error_response(question.key, answer.error)
            else:
                data = jsonrpc.response(question.key, answer.result or EMPTY_OBJECT)
        finally:
            for pending in waiting:
                pending.resume()
        if not await self._replies.send(data) and len(waiting) == 1:
            (only,) = waiting
            why = f"its session ended before the answer to {only.call.method}"
            only.fail(self._link.unavailable(why))

    def _progressed(self, token: Raw, params: Params) -> None:
        self._replies.send_beside(jsonrpc.notification(PROGRESS, {**params, PROGRESS_TOKEN: token}))


def _busy(pending: Mapping[int, Pending]) -> int:
    """How many of these calls could be asked something."""
    return sum(asks_possible(each.call) for each in pending.values())
