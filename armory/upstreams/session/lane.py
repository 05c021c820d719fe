"""Whose turn it is among the calls of one session, of which one runs at a time.

Owns: `Lane`, and `Turn`, which a call lends to others while a person thinks about its question.
Never imports a transport.

A question that has been open for some seconds waits for a person (or for a model), who may be gone:
others have their turn meanwhile. Whoever has an answer goes before those that have not begun; the
one that has the turn then lends it at once if its client is being asked, too. Where different
people share the session, a question in between could be another's: there only calls pass whose
like has never asked.
"""

from __future__ import annotations

import asyncio
from collections import deque

OPEN_S = 3.0
"""How long a question is open before others have their turn: a program has answered by then."""


class Lane:
    """Passes one turn from call to call; those that were asked come before those that begin.

    Args:
        shared: whether different people's calls are in it, so that no turn is lent.

    Attributes:
        holder: whose turn it is; None: nobody's.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self.holder: Turn | None = None
        self._answered: deque[tuple[Turn, asyncio.Future[None]]] = deque()
        self._beginning: deque[tuple[Turn, asyncio.Future[None]]] = deque()

    @property
    def wanted(self) -> bool:
        """Whether a call that has its answer waits for its turn."""
        return bool(self._answered)

    async def take(self, turn: Turn) -> None:
        """Wait until nobody else's turn is left; a quiet one also goes by the one of a person who
        thinks, and does not have it then.

        Args:
            turn: of the call; one that was lent comes before those that begin.
        """
        if self.holder is None:
            self.holder = turn
            return
        if turn.quiet and self.holder.waits:
            self.holder.passed = True
            return
        line = self._answered if turn.lent else self._beginning
        place = turn, asyncio.get_running_loop().create_future()
        line.append(place)
        if turn.lent and self.holder.asked:
            self.holder.lend()
        try:
            await place[1]
        except asyncio.CancelledError:
            if self.holder is turn:
                self.give(turn)
            elif place in line:
                line.remove(place)
            raise

    def let_pass(self, turn: Turn) -> None:
        """Let quiet calls go by the one whose turn it is."""
        quiet = [place for place in self._beginning if place[0].quiet]
        for place in quiet:
            self._beginning.remove(place)
            if not place[1].done():
                turn.passed = True
                place[1].set_result(None)

    def give(self, turn: Turn) -> None:
        """Pass the turn on, if it is this one's."""
        if self.holder is not turn:
            return
        line = self._answered or self._beginning
        self.holder, place = line.popleft() if line else (None, None)
        if place is not None and not place.done():
            place.set_result(None)
        elif place is not None and self.holder is not None:
            self.give(self.holder)  # it was cancelled in the same step of the loop


class Turn:
    """The turn of one call.

    Args:
        lane: whose calls run one at a time.
        quiet: whether the call is known to ask nothing.

    Attributes:
        asked: how many answers of its client it waits for.
        ever_asked: whether its client was asked anything.
        lent: whether others have their turn, before which it may not go on.
        waits: whether a person is thinking, and quiet calls may go by; where turns are not lent.
        passed: whether any did, since its client was last asked.
    """

    def __init__(self, lane: Lane, *, quiet: bool = False) -> None:
        self.asked = 0
        self.quiet = quiet
        self.ever_asked = self.lent = self.waits = self.passed = False
        self._lane = lane
        self._again = asyncio.Lock()  # one call may have several answers at once
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def held(self) -> bool:
        """Whether it is this call's turn."""
        return self._lane.holder is self

    async def take(self) -> None:
        """Wait until nobody else's turn is left."""
        await self._lane.take(self)
        self.lent = False

    def give(self) -> None:
        """Let others have theirs; does nothing where it is not this call's."""
        self._lane.give(self)

    def lend(self) -> None:
        """Let others have theirs until the call has its answer."""
        if self.held and self._lane.shared:
            self.waits = True
            self._lane.let_pass(self)
        elif not self._lane.shared:
            self.lent = True
            self.give()

    def begin_asking(self) -> None:
        """The call's client is being asked: after a moment others have their turn, or at once if
        one of them has an answer. Until then it has the turn that is nobody's: a call may ask after
        it let go of its own.
        """
        self.asked += 1
        self.ever_asked = True
        if self._lane.holder is None and not self._over:
            self._lane.holder = self
            self.lent = False
        if self._lane.wanted:
            self.lend()
        else:
            self._watch()

    def end_asking(self) -> None:
        """The call's client has answered, or is asked no longer."""
        self.asked -= 1
        if not self.asked:
            self.waits = False
            self._stop_timer()

    async def go_on(self) -> None:
        """Wait for the turn again if it was lent, unless the call ends meanwhile."""
        async with self._again:
            if self.lent and not self._over:
                await self.take()
        if self._over:
            self.give()
        elif self.asked:  # another question of this call is open
            self._watch()

    def go_beside(self) -> None:
        """The turn did not come in time: the call goes on beside another's, and may ask again."""
        self.lent = False
        if self.asked:
            self._watch()

    def end(self) -> None:
        """The call is over."""
        self._over = True
        self._stop_timer()
        self.give()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(OPEN_S, self._too_long)

    def _too_long(self) -> None:
        self._timer = None
        self.lend()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
