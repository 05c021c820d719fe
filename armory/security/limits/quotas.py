"""Quotas: what a caller may use each day, and at the same time.

Owns: which rule of `security.quotas` applies to whom. Never counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from armory.domain.principal import Principal
from armory.security.rules import ByNames, Rule


@dataclass(frozen=True, slots=True)
class Quota:
    """One rule; None means no limit.

    Attributes:
        who: glob patterns over scopes, user and subject; empty means everybody.
        calls_per_day: calls of tools.
        searches_per_day: listings with a query and the tools that search.
        concurrency: requests to upstreams that may run at a time.
    """

    who: tuple[str, ...] = ()
    calls_per_day: int | None = None
    searches_per_day: int | None = None
    concurrency: int | None = None


class Quotas:
    """All rules.

    Args:
        rules: in their order: the first that speaks about a caller holds for it.
    """

    def __init__(self, rules: Sequence[Quota]) -> None:
        self._rules = [(Rule(who=rule.who), rule) for rule in rules]
        self._first = ByNames(partial(_first_that_fits, self._rules))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, principal: Principal) -> Quota | None:
        """The rule for a caller; None: no limit."""
        return self._first.of(principal)


def _first_that_fits(rules: Sequence[tuple[Rule, Quota]], principal: Principal) -> Quota | None:
    return next((rule for who, rule in rules if who.applies_to(principal)), None)
