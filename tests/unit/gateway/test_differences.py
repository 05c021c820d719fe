"""What differs for whom when one snapshot takes the place of another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import Principal
from armory.gateway.changes.differences import ViewDifference
from armory.gateway.endpoint import ALL
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.view import View
from armory.security.policy import Policy
from armory.security.rules import Rule

NAMES = st.sampled_from(("one", "two", "three"))
SERVERS = ("a", "b")
PATTERNS = st.sampled_from(("*", "a__*", "a__one", "b__t*", "b+*", "a+x:two*", "nothing"))
RULES = st.lists(
    st.builds(
        Rule, allow=st.tuples(PATTERNS, PATTERNS), deny=st.lists(PATTERNS, max_size=1).map(tuple)
    ),
    max_size=2,
)
ENTRIES = st.dictionaries(NAMES, st.sampled_from(("red", "blue")), max_size=3)


def lists(tools: dict[str, str], resources: dict[str, str]) -> ServerLists:
    return ServerLists(
        tools=[{"name": name, "description": said} for name, said in tools.items()],
        resources=[{"uri": f"x:{name}", "name": said} for name, said in resources.items()],
    )


SNAPSHOTS = st.fixed_dictionaries({key: st.builds(lists, ENTRIES, ENTRIES) for key in SERVERS})


@given(SNAPSHOTS, SNAPSHOTS, RULES, st.sets(st.sampled_from(SERVERS)))
def test_of_what_differs_alone_is_told_what_is_told_of_all(
    before: Any, after: Any, rules: list[Rule], private: set[str]
) -> None:
    settings, caller = GatewaySettings(), Principal("ann")
    first = build_catalog(before)[0]
    second = build_catalog(after, None, first)[0]

    def told(then: Policy, now: Policy) -> frozenset[str]:
        old = View(first, then, settings)
        new = View(second, now, settings, old)
        return ViewDifference(old, new, frozenset(private)).lists_changed(caller, ALL)

    same = Policy(rules)
    assert told(same, same) == told(Policy(rules), Policy(rules))  # which looks at everything
