"""Which quota holds for whom."""

from __future__ import annotations

from armory.domain.principal import Principal
from armory.security.limits.quotas import Quota, Quotas


def test_the_first_rule_that_fits_holds_whole() -> None:
    few, many = Quota(("ci-*",), calls_per_day=5), Quota(("staff",), concurrency=9)
    rest = Quota(calls_per_day=1, searches_per_day=1, concurrency=1)
    quotas = Quotas([few, many, rest])
    assert quotas.of(Principal("ci-1")) is few
    assert quotas.of(Principal("ci-2", scopes=frozenset({"staff"}))) is few
    assert quotas.of(Principal("x", scopes=frozenset({"staff"}))) is many
    assert quotas.of(Principal("x", user="ci-9")) is few
    assert quotas.of(Principal("x", user="ann")) is rest
    assert quotas.of(Principal("x", user="ann")) is rest


def test_without_a_rule_that_fits_there_is_no_limit() -> None:
    assert Quotas([Quota(("a",), 1)]).of(Principal("b")) is None
    assert not Quotas([])
