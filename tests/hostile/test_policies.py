"""Many rules, and many names in them, over a large catalog.

Bounded: what a caller sees is found out on the event loop, with steps in proportion to the tools
and the names, not to one times the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from armory.domain.catalog import Catalog, ServerLists, ToolRules
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import Principal
from armory.domain.visibility import EVERYTHING, Scope
from armory.gateway.changes.differences import ViewDifference
from armory.gateway.endpoint import ALL
from armory.gateway.settings import GatewaySettings, SetSpec
from armory.gateway.views.view import View
from armory.protocol.methods import TOOLS_CHANGED
from armory.security.policy import Policy
from armory.security.rules import Rule

ANN = Principal("ann", "ann", frozenset(("read", "write")))


def steps(work: Callable[[], object]) -> int:
    """How many functions are called, those of C included."""
    count = 0

    def called(_frame: object, event: str, _what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def catalog(tools: int) -> Catalog:
    lists = {"a": ServerLists(tools=[{"name": f"tool{n}"} for n in range(tools)])}
    return build_catalog(lists)[0]


def in_one_rule(names: list[str]) -> list[Rule]:
    return [Rule(("ann",), tuple(names), ("b__*", *(f"{name}_" for name in names)))]


def in_many_rules(names: list[str]) -> list[Rule]:
    return [Rule(("read",), (name,)) for name in names]


@pytest.mark.parametrize("rules", [in_one_rule, in_many_rules])
def test_rules_over_many_tools(rules: Callable[[list[str]], list[Rule]]) -> None:
    def taken(size: int) -> int:
        policy = Policy(rules([f"a__tool{n}" for n in range(size)]))
        served = catalog(size)
        return steps(lambda: policy.visible_catalog(served, ANN, EVERYTHING))

    assert taken(400) <= 2.6 * taken(200)


def test_rules_for_many_scopes_of_somebody_with_many_scopes() -> None:
    def taken(size: int) -> int:
        policy = Policy([Rule((f"team{n}",), ("*",)) for n in range(size)])
        somebody = Principal("a", None, frozenset(f"scope{n}" for n in range(size)))
        return steps(lambda: policy.profile(somebody))

    assert taken(400) <= 2.6 * taken(200)


def test_a_set_of_many_tools() -> None:
    def taken(size: int) -> int:
        scope = Scope("set", frozenset(), tuple(f"a__tool{n}" for n in range(size)))
        served, policy = catalog(size), Policy()
        return steps(lambda: policy.visible_catalog(served, ANN, scope))

    assert taken(400) <= 2.6 * taken(200)


def test_many_tools_that_an_upstream_may_have() -> None:
    def taken(size: int) -> int:
        names = tuple(f"tool{n}" for n in range(size))
        rules = ToolRules(names, tuple(f"{name}_" for name in names))
        return steps(lambda: [rules.includes(name) for name in names])

    assert taken(400) <= 2.6 * taken(200)


def test_thousands_with_rules_of_their_own_hear_of_a_change() -> None:
    """Each needs as many steps as there are changes, however many tools there are."""

    def taken(size: int) -> int:
        policy = Policy([Rule((f"team{n}",), (f"a__tool{n}",)) for n in range(50)])
        views = [View(catalog(tools), policy, GatewaySettings()) for tools in (size, size + 3)]
        difference = ViewDifference(views[0], views[1], frozenset())
        people = [Principal("a", None, frozenset((f"team{n}",))) for n in range(50)]
        return steps(lambda: [difference.lists_changed(one, ALL) for one in people])

    assert taken(400) <= 1.3 * taken(200)


def test_that_everything_differs_is_known_with_the_first() -> None:
    """A server of 100,000 tools comes: it is enough that a caller sees one of them."""

    def taken(size: int) -> int:
        policy = Policy([Rule((user,), ("a__*",)) for user in ("ann", "bob")])
        views = [View(catalog(tools), policy, GatewaySettings()) for tools in (0, size)]
        difference = ViewDifference(views[0], views[1], frozenset())
        difference.lists_changed(ANN, ALL)  # the patterns are compiled
        bob = Principal("bob")
        assert difference.lists_changed(bob, ALL) == {TOOLS_CHANGED}
        fresh = ViewDifference(views[0], views[1], frozenset())
        return steps(lambda: fresh.lists_changed(bob, ALL))

    assert taken(400) <= 1.1 * taken(200)


def test_of_which_of_many_sets_somebody_sees_anything() -> None:
    """Whoever asks for the manifest is told: of each set as soon as one of its tools is found."""

    def taken(size: int) -> int:
        names = [f"set{n}" for n in range(50)]
        sets = {name: SetSpec(tools=("a__tool*",)) for name in names}
        view = View(catalog(size), Policy([Rule(("ann",), ("*",))]), GatewaySettings(sets=sets))
        view.policy.visible_catalog(view.catalog, ANN)
        return steps(lambda: view.sets_for(ANN))

    few = taken(200)
    assert taken(400) <= 1.1 * few  # where the pattern is compiled already
