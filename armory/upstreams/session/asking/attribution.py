"""Finds the client that a question of an upstream is for, where the session does not say.

Owns: `Attribution`, and the abandoned calls because of which the upstream may still ask something.
Asks nobody itself. Never imports a transport.

In a session that several clients share, a stdio or HTTP+SSE upstream cannot say which call a
request of its own belongs to. If only one call in flight can have caused it (`turns` arranges
that), it is for that call's client. If several can, or an abandoned call of another principal, it
is for nobody.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import cast

from armory.protocol.capabilities import CAPABILITY
from armory.protocol.link import Call, ClientChannel
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lane import Turn
from armory.upstreams.session.pending import Pending
from armory.upstreams.session.turns import Turns, asks_possible

_KEPT = 1_000
"""Abandoned calls that are known one by one; of further ones only the callers are."""
_ROOTS_S = 30.0
"""How long `roots/list` goes to the client that last said that its roots changed."""


class AbandonedCalls:
    """Calls of one session that were given up before they were answered.

    An upstream that heeds a cancellation sends no answer; one that ignores it may still ask
    something. The two look alike, so a call counts until its answer comes, or the session
    ends. Beyond a thousand calls, only their callers are kept.
    """

    def __init__(self) -> None:
        self._calls: dict[int, str] = {}
        self._callers: set[str] = set()

    def add(self, request_id: int, caller: str) -> None:
        """Record that a call was abandoned before it was answered.

        Args:
            request_id: the call's id.
            caller: the key of the principal that made it.
        """
        if len(self._calls) < _KEPT:
            self._calls[request_id] = caller
        else:
            self._callers.add(caller)

    def answered(self, request_id: object) -> bool:
        """Record a late answer, whose call asks nothing more; returns whether that call was
        abandoned.
        """
        return isinstance(request_id, int) and self._calls.pop(request_id, None) is not None

    def of_others(self, caller: str) -> bool:
        """Whether any abandoned call belongs to another principal than `caller`."""
        return any(one != caller for one in (*self._callers, *self._calls.values()))


class Attribution:
    """Finds the client that a question of one session's upstream is for.

    Args:
        link: whose session it is.
        pending: the calls in flight.
        exact: whether the transport tells which call asks.
    """

    def __init__(self, link: BaseLink, pending: Mapping[int, Pending], *, exact: bool) -> None:
        self._link = cast("BaseLink", weakref.proxy(link))  # it has this one: no cycle
        self._pending = pending
        self._exact = exact
        self._roots_changed_by: tuple[ClientChannel, float] | None = None
        self._turns = Turns(
            link.silent, partial(_busy, pending), shared=link.spec.isolation == "shared"
        )
        self._given_up = AbandonedCalls()
        self._may_ask = AbandonedCalls()  # those of them that could make it ask

    def note_question(self, method: str) -> None:
        """The upstream has asked something: from now on, calls that may cause questions run one at
        a time.
        """
        self._turns.questions += method in CAPABILITY

    def began_anew(self) -> None:
        """The session was replaced by a new one, which asks nothing because of earlier calls."""
        self._given_up, self._may_ask = AbandonedCalls(), AbandonedCalls()

    def turn_for(self, call: Call) -> AbstractAsyncContextManager[None] | None:
        """The lock that `call` must hold while it runs; None when it need not wait for others."""
        turns, link = self._turns, self._link
        if self._exact and not turns.interactive:
            return None
        if link.client is not None or link.era == "modern" or not asks_possible(call):
            return None
        if turns.interactive:
            return turns.one_at_a_time(call)
        # Where many share a session, those who gave nothing up would wait for those who did.
        return turns.alone_at_first(call, patient=link.spec.isolation != "shared")

    def turn_of(self, pending: Pending) -> Turn | None:
        """The turn of a call, which others on the session may have while its client is asked;
        None: it needs none.
        """
        inexact = not self._exact or self._turns.interactive  # it has asked beside every call
        if inexact and self._link.client is None and pending.id in self._pending:
            return self._turns.of_asked(pending.call)
        return self._turns.of(pending.call)

    async def go_on(self, turn: Turn) -> None:
        """A call's client has answered: wait a moment for its turn, in which it may ask again."""
        await self._turns.go_on(turn)

    def waits_for_person(self) -> bool:
        """Whether the client of a call in flight is being asked."""
        return any(pending.questions for pending in self._pending.values())

    def given_up(self, pending: Pending) -> None:
        """A call was abandoned; for a moment the upstream may still ask because of it."""
        if self._link.era != "legacy" or pending.call.client is None:
            return
        self._given_up.add(pending.id, pending.call.caller)
        if asks_possible(pending.call):
            self._turns.given_up(pending.id)
            self._may_ask.add(pending.id, pending.call.caller)

    def ended(self, call: Call) -> None:
        """A call has ended."""
        self._turns.ended(call)

    def answered_late(self, request_id: object) -> bool:
        """Whether a response that nobody waits for belongs to an abandoned call."""
        known = self._may_ask.answered(request_id)
        self._given_up.answered(request_id)
        return self._turns.answered_late(request_id) or known

    def may_be_anothers(self, call: Call) -> bool:
        """Whether a log line that comes during this call may belong to an abandoned call of another
        principal.
        """
        return self._given_up.of_others(call.caller)

    def roots_changed(self, client: ClientChannel) -> None:
        """A client reported changed roots: a `roots/list` that follows soon is meant for it."""
        self._roots_changed_by = client, asyncio.get_running_loop().time() + _ROOTS_S

    def informer(self, method: str) -> ClientChannel | None:
        """The client whose `roots/list_changed` this `roots/list` follows; None: no client."""
        if method != "roots/list" or self._roots_changed_by is None:
            return None
        client, until = self._roots_changed_by
        if until > asyncio.get_running_loop().time():
            return client
        self._roots_changed_by = None
        return None

    def cause(self, method: str, via: Pending | None) -> tuple[Pending | None, str]:
        """The call that caused a question: (call, ""), or (None, the reason why that is unknown; ""
        where no client could answer).
        """
        needed = CAPABILITY.get(method)

        def able(pending: Pending) -> bool:
            client = pending.client
            return client is not None and (needed is None or needed in client.capabilities)

        if via is not None:
            return (via, "") if able(via) else (None, "")
        candidates = [pending for pending in self._pending.values() if able(pending)]
        if len(candidates) > 1:
            candidates = self.at_work(candidates) or candidates
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

    def at_work(self, calls: list[Pending]) -> list[Pending]:
        """Those of these calls that may have caused what comes: of one caller's, one that lent its
        turn until it has its answer neither asks nor logs anything else.
        """
        if len({pending.call.caller for pending in calls}) > 1:
            return calls
        return [pending for pending in calls if not self._has_lent(pending)]

    def _has_lent(self, pending: Pending) -> bool:
        """Whether a call waits for an answer while it is another's turn."""
        turn = self._turns.of(pending.call)
        return turn is not None and turn.lent and bool(pending.questions)


def _busy(pending: Mapping[int, Pending]) -> int:
    """How many of these calls may cause questions."""
    return sum(asks_possible(each.call) for each in pending.values())
