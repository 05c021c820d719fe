"""What a request needs of its caller's rate limit, daily quota and slots.

Owns: `Demand` and `DemandOutcome`, as values, and `Holdings`. Never imports anything but the
standard library.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

Counted = Literal["calls", "searches"]
Exceeded = Literal["rate", "calls", "searches", "concurrency"]
DAY_S = 86_400
K = TypeVar("K")


class Rate(NamedTuple):
    """A token bucket: `per_s` tokens come back a second, `burst` fit in."""

    per_s: float
    burst: int


class PerDay(NamedTuple):
    """A daily quota; days are UTC."""

    kind: Counted
    limit: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What one request needs; it is granted as a whole or not at all.

    Attributes:
        identity: the key of the daily count and the slots, at most 200 characters.
        caller: the key of the rate: the same caller, its name not shortened.
        rate: None: no limit, as for the others.
        per_day: the daily quota.
        slots: how many requests of the identity may run at a time, this one included.
    """

    identity: str
    caller: str
    rate: Rate | None = None
    per_day: PerDay | None = None
    slots: int | None = None


class DemandOutcome(NamedTuple):
    """The outcome of a demand.

    Attributes:
        exceeded: the limit that refused it; None: everything was granted.
        wait_s: seconds after which another try makes sense.
        lease: the id of the slot, which has to be given back; empty: no slot was taken.
    """

    exceeded: Exceeded | None = None
    wait_s: float = 0.0
    lease: str = ""


class Holdings(Counter[K]):
    """How much of a limited resource each key holds; keys that hold nothing take no memory."""

    def take(self, key: K, amount: int = 1) -> None:
        """Add to the amount that a key holds."""
        self[key] += amount

    def give_back(self, key: K, amount: int = 1) -> None:
        """Subtract from the amount that a key holds."""
        self[key] -= amount
        if not self[key]:
            del self[key]


SLOT_WAIT_S = 1.0
"""Advised wait where all slots are taken: nobody knows when the requests that hold them end."""


def day_of(now_s: float) -> tuple[int, float]:
    """(number of the day, seconds until the next one begins), UTC.

    Args:
        now_s: seconds since 1970.
    """
    day = int(now_s // DAY_S)
    return day, (day + 1) * DAY_S - now_s
