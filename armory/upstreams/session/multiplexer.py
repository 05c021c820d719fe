"""The calls in flight of one session, and the messages that are no responses.

Owns: request ids, routing of responses, progress and log messages to the call that they belong to.
What the upstream asks is `questions`' affair. Never imports a transport.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import cast

import msgspec
from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.http1.deadlines import CallDeadline
from armory.logger import Logger
from armory.protocol import jsonrpc
from armory.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS
from armory.protocol.link import Call, Params, Reply, cancelled_params
from armory.protocol.meta import PROGRESS_TOKEN, SUBSCRIPTION_ID
from armory.protocol.methods import (
    CANCELLED,
    LISTEN,
    LISTS_CHANGED,
    LOGGED,
    NEWS_FOR_LISTENERS,
    PROGRESS,
    loud_enough,
)
from armory.protocol.rawjson import encode, says_nothing, scalar, text_of
from armory.protocol.scanning.taking_apart import TooWide
from armory.protocol.upstream_messages import (
    ABSENT,
    DEEPEST,
    OutlinedMessage,
    TruncatedMessage,
    UpstreamMessage,
    own_id,
    params_of,
)
from armory.upstreams.session.asking.attribution import Attribution
from armory.upstreams.session.asking.questions import Question, Questions
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.budget import TOLD_EACH_S, TOLD_TO_ALL
from armory.upstreams.session.listening import without_subscription
from armory.upstreams.session.pending import Item, Note, Pending

log = Logger(__name__)

_GIVEN_UP = 1_000
"""Calls of one session that were given up and may be answered all the same: so many, the last."""


class _Meta(msgspec.Struct, gc=False):
    """The members of a notification's `_meta` that say which call it belongs to."""

    subscription: Raw = msgspec.field(name=SUBSCRIPTION_ID, default=ABSENT)


_meta = msgspec.json.Decoder(_Meta).decode


class RequestMultiplexer:
    """The calls in flight of one session.

    Args:
        link: whose session it is.
        send: puts a response to the upstream on the wire.
        exact: whether the transport tells which call asks.

    Attributes:
        pending: the calls in flight, by id.
        attribution: whose questions it is that the upstream asks.
        questions: what it asks of clients meanwhile.
    """

    def __init__(
        self, link: BaseLink, send: Callable[[bytes], Awaitable[None]], *, exact: bool = False
    ) -> None:
        self._link = cast("BaseLink", weakref.proxy(link))  # it has this one: no cycle
        self._last_id = 0
        self._told_until: dict[str, float] = {}
        self._given_up: dict[int, bool] = {}
        self.pending: dict[int, Pending] = {}
        self.attribution = Attribution(link, self.pending, exact=exact)
        self.questions = Questions(link, send, self.pending, self.attribution)

    def open(self, call: Call, scope: CallDeadline | None = None) -> Pending:
        """Register a call and give it its id."""
        self._last_id += 1
        pending = Pending(self._last_id, call, scope)
        self.pending[pending.id] = pending
        self.questions.began(call)
        return pending

    def close(self, pending: Pending, *, answered: bool) -> None:
        """A call is over.

        If it was answered, questions that it caused stay open: the upstream may still wait for
        them.
        """
        self.pending.pop(pending.id, None)
        pending.end()
        self.attribution.ended(pending.call)
        if answered and not self._link.closed:
            self.questions.outlive(pending)
            return
        for task in pending.questions:
            task.cancel()
        if not answered:
            self.attribution.given_up(pending)
            self._given_up[pending.id] = True
            if len(self._given_up) > _GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]

    def fail_all(self, error: UpstreamUnavailable) -> None:
        """Fail every call in flight with `error`."""
        for pending in tuple(self.pending.values()):
            pending.put(error)
        self.questions.cancel_unbound()

    def route(
        self, message: UpstreamMessage, via: Pending | None = None, *, size: int
    ) -> tuple[Pending, Item] | None:
        """Deliver a message to the call or client that it is for; requests of the upstream are
        served from here.

        Args:
            message: what came.
            via: the call on whose own stream it came, or None.
            size: in bytes, with members that say nothing: what it costs unless it was asked for.
        """
        if message.method is None:
            return self._response(message, via, size)
        try:
            params = params_of(message)
        except TooWide as error:
            self._link.budget.garbage(error, size)
            return None
        if message.id is not None:
            self._link.budget.nuisance(size)
            question = Question(encode(message.id), message.method, params)
            if params or message.params is ABSENT or _by_name(message.params):
                self.questions.serve(question, via)
            else:
                self.questions.refuse(question, INVALID_PARAMS, "params is no object")
            return None
        cost = self._cost_of_changes(message.method) if message.method in LISTS_CHANGED else 1.0
        self._link.budget.notification(size, cost)
        if message.method == CANCELLED:
            return self._cancelled(params)
        target = self._target(message.method, params, via)
        if target is not None:
            pending, note = target
            return (pending, note) if note is not None else None
        if message.method != PROGRESS:
            if self._link.era == "modern":  # of a subscription that was replaced meanwhile
                params = without_subscription(params)
            self._link.notified(message.method, params)
        return None

    def _cancelled(self, params: Params) -> tuple[Pending, Item] | None:
        """The upstream withdraws a request of its own or, in the era in which it has none, ends a
        subscription.
        """
        if self._link.era == "legacy":
            self.questions.withdraw(params)
            return None
        known = own_id(scalar(params.get("requestId")))
        pending = None if known is None else self.pending.get(known)
        if pending is None or pending.call.method != LISTEN:
            return None
        return pending, self._link.unavailable("it ended the subscription")

    def _cost_of_changes(self, method: str) -> float:
        """Units of the budget that a list-changed notification costs.

        Servers announce each of a thousand tools that they add, but clients are told every
        `TOLD_EACH_S` at most: what comes in between costs little.
        """
        now = monotonic()
        if now < self._told_until.get(method, 0.0):
            return 1.0
        self._told_until[method] = now + TOLD_EACH_S
        return TOLD_TO_ALL

    def _response(
        self, message: UpstreamMessage, via: Pending | None, size: int
    ) -> tuple[Pending, Item] | None:
        known = own_id(message.id) if message.answers else None
        pending = None if known is None else self.pending.get(known)
        if pending is None:
            if via is not None and message.id is None and message.failed:
                pending = via
            else:
                if not self._answered_late(known):
                    self._link.budget.nuisance(size)
                    self._link.budget.say(log.debug, "upstream_answer_unexpected")
                return None
        return pending, self.reply_of(message, pending.call.method)

    def _answered_late(self, request_id: int | None) -> bool:
        """Whether a response that nobody waits for is to an abandoned call. It costs nothing, as
        any answer: an upstream may have no way to honour a cancellation, and abandoned large
        answers must not get it cut off.
        """
        late = self.attribution.answered_late(request_id)
        return (request_id is not None and self._given_up.pop(request_id, False)) or late

    def reply_of(self, message: UpstreamMessage, method: str) -> Item:
        """The reply in a response to a call of `method`, or the error for a response
        without one.
        """
        # A list loses no more than the entry that was too deep.
        if isinstance(message, TruncatedMessage) and not method.endswith("/list"):
            why = f"the answer is nested deeper than {DEEPEST} levels"
            return Reply(error=jsonrpc.error(INTERNAL_ERROR, why), era=self._link.era)
        if message.failed:
            return Reply(error=jsonrpc.well_formed(message.error), era=self._link.era)
        if message.result is not ABSENT:
            outline = message.outline if isinstance(message, OutlinedMessage) else None
            return Reply(message.result, era=self._link.era, short=outline)
        return self._link.unavailable("it answered with neither 'result' nor 'error'")

    def _target(
        self, method: str, params: Params, via: Pending | None
    ) -> tuple[Pending, Note | None] | None:
        if method == PROGRESS:
            return self._progress(params)
        if method == LOGGED:
            target = via if via is not None else self._only_call()
            if target is None or target.client is None:
                return _of_nobody(target)
            wants = target.client.log_level
            loud = loud_enough(text_of(params, "level"), wants)
            return target, Note(method, params) if loud else None
        if via is not None:
            if method in NEWS_FOR_LISTENERS and via.call.method != LISTEN:
                return None
            return _of_nobody(via) if via.client is None else (via, Note(method, params))
        listener = self._listener(params)
        return None if listener is None else (listener, Note(method, params))

    def _progress(self, params: Params) -> tuple[Pending, Note | None] | None:
        known = own_id(scalar(params.get(PROGRESS_TOKEN)))
        pending = None if known is None else self.pending.get(known)
        if pending is None or pending.client is None:
            return None
        own = pending.client.progress_token
        if own is None:
            return pending, None
        return pending, Note(PROGRESS, {**params, PROGRESS_TOKEN: own})

    def _listener(self, params: Params) -> Pending | None:
        if self._link.era != "modern" or "_meta" not in params:
            return None
        known = own_id(_subscription(params["_meta"]))
        return None if known is None else self.pending.get(known)

    def _only_call(self) -> Pending | None:
        """The call that alone can have made the upstream log something, and that can still be told
        of it; None: none, or several.
        """
        calls = (p for p in self.pending.values() if p.call.method != LISTEN)
        owned = [p for p in calls if p.client is not None]
        if len(owned) > 1:
            owned = self.attribution.at_work(owned)
        if len(owned) != 1 or self.attribution.may_be_anothers(owned[0].call):
            return None
        return None if owned[0].answered else owned[0]


def _by_name(params: Raw) -> bool:
    """Whether parameters are an object, or none. MCP has no others; a client would miss them."""
    return bytes(memoryview(params)[:1]) == b"{" or says_nothing(params)


def _of_nobody(target: Pending | None) -> tuple[Pending, None] | None:
    """The target of a notification that belongs to no call: nowhere if its client has gone."""
    return None if target is None or target.call.client is None else (target, None)


def _subscription(meta: Raw) -> object:
    """The id of the subscription in a `_meta`; None: it has none."""
    try:
        return scalar(_meta(meta).subscription)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def call_cancelled(request_id: int) -> Params:
    """Parameters of `notifications/cancelled` for a call, sent while its cancellation
    propagates.
    """
    return cancelled_params(Raw(b"%d" % request_id), "the caller went away or its time ran out")
