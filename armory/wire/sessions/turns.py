"""Fairness between callers: requests of a busy caller wait so that others are answered in between.

Owns: `OneATurn`, for the messages of a batch, and `Shares`, for requests. A hundred that begin at
once would be one long turn of the event loop, in which nobody else is answered; short ones without
a pause would leave no turn to others. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

MANY = 8
"""Requests under way from which on a caller begins one further request a turn."""
SHARE = 0.5
"""Share of the event loop that one caller may take beside others. The rest is theirs, or stays
free, so that nobody else has to wait.
"""
LONG_STEP_S, LONG_SHARE = 0.001, 0.1
"""The part of a step beyond `LONG_STEP_S` is charged as if the caller's share were `LONG_SHARE`:
nobody is served in the middle of a step, so others wait for its length.
"""
VERY_LONG_STEP_S, VERY_LONG_SHARE = 0.004, 0.005
"""The part of a step beyond `VERY_LONG_STEP_S`, likewise: as long as such steps take less than a
hundredth of the time, hardly one call in a hundred meets one. A message of a few MB, all of small
values, takes 10 to 20 ms, in C code that cannot be interrupted.
"""
AT_ONCE_S, VERY_LONG_AT_ONCE_S = 0.05, 10.0
"""Credit of a caller that used nothing lately, in seconds of what it would pay off: 25 ms in short
steps or a long one of 4 ms, and 50 ms of very long steps. With little, a person's own clients
waited for each other after each search, whenever anybody else asked something.
"""
DEBT_S = 5.0
"""The most that a caller has to pay off, however long a step took."""
RECENT_S = 0.1
"""A caller whose last request is older does not count as one of the others."""
PRECISE_S = 10.0
"""How long a caller that seemed to use too much is measured by the thread's own time."""
KEPT = 1_000
"""Accounts from which on those of callers that used nothing lately are forgotten."""


class OneATurn:
    """Lets one request of each caller start in each turn of the event loop."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def next(self, caller: str) -> None:
        """Wait for a turn in which no other request of the caller starts."""
        async with self._locks.setdefault(caller, asyncio.Lock()):
            await asyncio.sleep(0)


class Account:
    """The event loop time that one caller has used, and when it may use more while others are
    active.

    Attributes:
        key: the caller's.
        free_at: when what it used is paid off, by the clock of `Shares`.
        since: when it last was over by the thread's own time, or began to be measured so.
        turn: held by the request of the caller that waits until `free_at`.
    """

    __slots__ = ("_clock", "_now", "_shares", "_very_long", "free_at", "key", "since", "turn")

    def __init__(self, key: str, shares: Shares) -> None:
        self._now = shares.clock
        self._shares = shares
        self.key = key
        self.free_at = self._very_long = 0.0  # the latter: of very long steps alone
        self._clock = self._now
        self.since = -math.inf
        self.turn = asyncio.Lock()

    @property
    def clock(self) -> Callable[[], float]:
        """The clock that measures steps, in seconds: usually wall time, which is cheap; for a
        caller that seems to use too much, the thread's CPU time, to which other threads do not add.
        """
        return self._clock

    @property
    def beside_others(self) -> bool:
        """Whether another caller was active lately."""
        return self._shares.beside_others(self, self._now())

    def spend(self, took: float) -> None:
        """A step of one of its requests took `took` seconds of the event loop."""
        now = self._now()
        if took > LONG_STEP_S:
            self._spend_long(took, now)
            return
        # As nearly every step, twice a call: nothing is called here.
        free_at = self.free_at
        if free_at < now - AT_ONCE_S:
            free_at = now - AT_ONCE_S
        free_at += took / SHARE
        self.free_at = free_at if free_at < now + DEBT_S else now + DEBT_S

    def _spend_long(self, took: float, now: float) -> None:
        most = now + DEBT_S
        paid_off_in = LONG_STEP_S / SHARE + (took - LONG_STEP_S) / LONG_SHARE
        free_at = max(self.free_at, now - AT_ONCE_S) + paid_off_in
        if took > VERY_LONG_STEP_S:
            paid_off_in = (took - VERY_LONG_STEP_S) / VERY_LONG_SHARE
            since = max(self._very_long, now - VERY_LONG_AT_ONCE_S)
            self._very_long = min(since + paid_off_in, most)
            free_at = max(free_at, self._very_long)
        self.free_at = min(free_at, most)

    def seems_over(self, now: float) -> bool:
        """Whether it used too much, by the thread's CPU time."""
        if self.free_at <= now:
            if self.since < now - PRECISE_S:
                self._clock = self._now
            return False
        if self._clock is self._now:  # perhaps it only waited: once more, and closely
            self._clock, self.since, self.free_at = time.thread_time, now, now
            self._very_long = 0.0
            return False
        self.since = now
        return True


class Shares:
    """Makes the requests of busy callers start in turn, while others are active.

    A caller with many requests in flight starts one in each turn, and a caller that used more than
    `SHARE` of the event loop waits as long as it was busy. While nobody else is active, nobody
    waits.

    Args:
        clock: seconds, monotonic: that by which steps are measured.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._under_way: dict[str, int] = {}
        self._accounts: dict[str, Account] = {}
        self._kept = KEPT
        self._refused = Account("", self)
        self._last = ""
        self._last_at = self._other_at = -math.inf

    def account(self, caller: str) -> Account:
        """The account of a caller, over all its connections."""
        found = self._accounts.get(caller)
        if found is None:
            if len(self._accounts) >= self._kept:
                self._forget()
            found = self._accounts[caller] = Account(caller, self)
        return found

    def _forget(self) -> None:
        """Drop accounts that have used nothing lately."""
        since = self.clock() - RECENT_S
        used = {key: one for key, one in self._accounts.items() if one.free_at > since}
        self._accounts, self._kept = used, max(KEPT, 2 * len(used))

    async def refused(self, connection: object) -> None:
        """A request of an unknown caller is about to be refused: all those wait for each other."""
        account = self._refused
        if hasattr(connection, "account"):
            setattr(connection, "account", account)  # noqa: B010 what the server gave it
        await self.paid_off(account)

    def account_on(self, connection: object, caller: str) -> Account:
        """The account of a caller, to which the connection charges its time from now on."""
        account: Account | None = getattr(connection, "account", None)
        if account is None or account.key != caller:
            account = self.account(caller)
            if hasattr(connection, "account"):
                setattr(connection, "account", account)  # noqa: B010 what the server gave it
        return account

    def enter(self, account: Account) -> bool:
        """A request of an account starts; returns whether it must await `turn` first. Call `leave`
        in any case.
        """
        caller = account.key
        before = self._under_way.get(caller, 0)
        self._under_way[caller] = before + 1
        now = self.clock()
        if caller != self._last:
            self._last, self._other_at = caller, self._last_at
        self._last_at = now
        if self._over(account, now):
            return True
        return before >= MANY and len(self._under_way) > 1

    async def paid_off(self, account: Account) -> None:
        """Wait, while others are active, until the time that the caller used is paid off."""
        if self._over(account, self.clock()):
            await self.turn(account)

    def beside_others(self, account: Account, now: float) -> bool:
        """Whether, by `clock`, a caller other than the account's was active lately."""
        others_at = self._other_at if account.key == self._last else self._last_at
        return now - others_at < RECENT_S

    def _over(self, account: Account, now: float) -> bool:
        return self.beside_others(account, now) and account.seems_over(now)

    async def turn(self, account: Account) -> None:
        """Wait until it may start: in a turn in which no other such request of the caller does and,
        while others are active, once all its time is paid off.
        """
        async with account.turn:
            await asyncio.sleep(0)
            while self._over(account, now := self.clock()):  # noqa: ASYNC110 until a known time
                await asyncio.sleep(min(account.free_at - now, RECENT_S))

    def leave(self, account: Account) -> None:
        """A request of the caller has ended."""
        caller = account.key
        left = self._under_way[caller] - 1
        if left:
            self._under_way[caller] = left
        else:
            del self._under_way[caller]
