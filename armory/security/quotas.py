"""Quotas: what a caller may use a day, and at a time.

Owns: which rule of `security.quotas` holds for whom. Never counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from armory.domain.principal import Principal
from armory.security.policy import Rule

_CALLERS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Quota:
    """One rule; what is None is without limit.

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
    """The rules in force.

    Args:
        rules: in their order: the first that speaks about a caller holds for it.
    """

    def __init__(self, rules: Sequence[Quota]) -> None:
        self._rules = [(Rule(who=rule.who), rule) for rule in rules]
        self._found: LRUCache[Principal, Quota | None] = LRUCache(_CALLERS_KEPT)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, principal: Principal) -> Quota | None:
        """The rule for a caller; None: it is without limit."""
        try:
            return self._found[principal]
        except KeyError:
            fits = (rule for who, rule in self._rules if who.applies_to(principal))
            found = self._found[principal] = next(fits, None)
            return found
