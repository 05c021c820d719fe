"""Who may: one decision for see and call."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

from armory.domain.catalog import Catalog, ServerLists, ToolRecord
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import ANONYMOUS, Principal
from armory.domain.visibility import EVERYTHING, Scope
from armory.security.limits.quotas import Quota, Quotas
from armory.security.policy import Policy, Rule
from armory.security.rules import Rules

ALICE = Principal("alice", user="ann", scopes=frozenset(("read", "docs:write")))


def catalog(*extra: str) -> Catalog:
    tools = [{"name": name} for name in ("get", "put", "drop", *extra)]
    lists = ServerLists(
        tools=tools,
        prompts=[{"name": "hi"}],
        resources=[{"uri": "file:///a"}],
        templates=[{"uriTemplate": "file:///{x}"}],
    )
    return build_catalog({"git": lists, "time": ServerLists(tools=[{"name": "now"}])})[0]


class Records(dict[str, ToolRecord]):
    """Tools that say how often they were gone through with their records."""

    passes = 0

    def items(self) -> Any:
        self.passes += 1
        return super().items()


class Told(str):
    """A text of which can be told whether anybody has it still."""


def test_rules_and_quotas_are_gone_with_their_last_reference() -> None:
    """Each reload makes new ones."""
    policy, quotas = Policy([Rule(allow=("*",))]), Quotas([Quota()])
    rules = Rules([Rule(allow=("*",))])
    policy.allows(ALICE, "git__get")
    quotas.of(ALICE)
    gone = weakref.ref(policy), weakref.ref(quotas), weakref.ref(rules)
    gc.disable()
    try:
        del policy, quotas, rules
        assert [left() for left in gone] == [None, None, None]
    finally:
        gc.enable()


def test_no_token_of_those_who_asked_is_kept() -> None:
    policy = Policy([Rule(allow=("*",))])
    quotas = Quotas([Quota(calls_per_day=1)])
    token = Told("a-token")
    kept = weakref.ref(token)
    asker = Principal("alice", credential=token)
    assert policy.allows(asker, "git__get")
    assert policy.visible_catalog(catalog(), asker).anything
    assert quotas.of(asker) is not None
    del asker, token
    assert kept() is None


def test_of_very_long_names_only_the_latest_are_remembered() -> None:
    policy = Policy([Rule(allow=("*",))])
    names = [Told(f"{number}" * 1_000_000) for number in range(8)]
    kept = [weakref.ref(name) for name in names]
    while names:
        assert policy.allows(Principal("x", user=names.pop(0)), "git__get")
    assert [name() is not None for name in kept] == [False] * 7 + [True]


def test_without_rules_everything_is_allowed() -> None:
    policy = Policy()
    snapshot = catalog()
    visible = policy.visible_catalog(snapshot, ANONYMOUS)
    assert visible.tools.names == set(snapshot.tools)
    assert visible.prompts == {"git__hi"}
    assert visible.resources == {"git+file:///a"}
    assert visible.templates == {"git+file:///{x}"}
    assert policy.allows(ANONYMOUS, "anything")
    assert not policy.restricts
    assert policy.packs_of(ALICE) == ()
    assert Policy([Rule()]).restricts


@pytest.mark.parametrize(
    ("who", "applies"),
    [
        ((), True),
        (("read",), True),
        (("docs:*",), True),
        (("ann",), True),
        (("alice",), True),
        (("bob", "admin"), False),
        (("*",), True),
        (("bob*", "[ac]dmin"), False),
    ],
)
def test_a_rule_applies_to_whom_it_names(who: tuple[str, ...], applies: bool) -> None:
    policy = Policy([Rule(who=who, allow=("*",))])
    assert policy.allows(ALICE, "git__get") is applies


def test_what_no_rule_allows_is_denied_and_deny_wins() -> None:
    policy = Policy(
        [
            Rule(who=("read",), allow=("git__*",), deny=("*__drop",)),
            Rule(allow=("git__drop", "time__now")),
        ]
    )
    assert policy.visible_tools(catalog(), ALICE).names == {"git__get", "git__put", "time__now"}
    assert policy.visible_tools(catalog(), ANONYMOUS).names == {"git__drop", "time__now"}
    assert not policy.allows(ALICE, "git__drop")
    assert policy.allows(ANONYMOUS, "git__drop")
    assert not policy.allows(ANONYMOUS, "git__get")


def test_prompts_and_resources_follow_the_same_patterns() -> None:
    policy = Policy([Rule(allow=("git+file:///a", "git__hi"))])
    visible = policy.visible_catalog(catalog(), ANONYMOUS)
    assert (visible.prompts, visible.resources, visible.templates) == (
        {"git__hi"},
        {"git+file:///a"},
        frozenset(),
    )
    assert (visible.names("prompts"), visible.names("tools")) == ({"git__hi"}, frozenset())
    assert visible.anything


def test_a_scope_shows_its_servers_and_tools_alone() -> None:
    scope = Scope("set:x", frozenset(("time",)), ("git__p*", "else__*"))
    visible = Policy().visible_catalog(catalog(), ANONYMOUS, scope)
    assert visible.tools.names == {"git__put", "time__now"}
    assert visible.prompts == frozenset()
    assert scope.has_tool("git", "git__put")
    assert not scope.has_tool("git", "git__get")
    assert not Scope("s", frozenset(("time",))).has_tool("git", "git__get")
    assert not Scope("s", None, ("x",)).has_server("git")
    assert EVERYTHING.everything
    assert not Scope("s", None, ("x",)).everything


def test_equal_profiles_share_one_set_per_snapshot() -> None:
    policy = Policy([Rule(who=("read",), allow=("*",)), Rule(allow=("time__now",))])
    snapshot = catalog()
    bob = Principal("bob", scopes=frozenset(("read",)))
    assert policy.visible_tools(snapshot, ALICE) is policy.visible_tools(snapshot, bob)
    assert policy.visible_tools(snapshot, ALICE) is not policy.visible_tools(snapshot, ANONYMOUS)
    newer, _ = build_catalog({"git": ServerLists(tools=[{"name": "x"}])}, previous=snapshot)
    present = policy.visible_tools(newer, ALICE)
    assert present.names == {"git__x"}
    before = policy.visible_tools(snapshot, ALICE)  # by a request that began with it
    assert before.names == set(snapshot.tools)
    assert present is policy.visible_tools(newer, ALICE) is policy.visible_tools(newer, bob)
    scope = Scope("set", frozenset(("git",)))
    others = policy.visible_tools(newer, ANONYMOUS), policy.visible_catalog(newer, ALICE, scope)
    keys = [present.key, before.key, others[0].key, others[1].tools.key]
    assert len(set(keys)) == 4, "each is known by its key outside"


def test_what_callers_see_of_the_next_snapshot_is_found_out_beforehand() -> None:
    policy = Policy([Rule(who=("alice",), allow=("git__*",)), Rule(allow=("time__*",))])
    before = catalog()
    scope = Scope("set", frozenset(("git",)))
    for principal in (ALICE, ANONYMOUS):
        policy.visible_tools(before, principal)
    policy.visible_catalog(before, ALICE, scope)
    made, _ = build_catalog({"git": ServerLists(tools=[{"name": "x"}])}, previous=before)
    tools = Records(made.tools)
    newer = replace(made, tools=tools)
    policy.prepare(newer)
    assert policy.visible_tools(before, ALICE) is policy.visible_tools(before, ALICE)
    policy.serve(newer)
    tools.clear()  # nobody goes through it again
    assert policy.visible_tools(newer, ALICE).names == {"git__x"}
    assert policy.visible_catalog(newer, ALICE, scope).tools.names == {"git__x"}
    assert not policy.visible_tools(newer, ANONYMOUS).names
    assert not policy.visible_tools(newer, Principal("carol")).names


def test_of_very_many_callers_the_latest_are_looked_at_beforehand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("armory.security.policy._PREPARED", 1)
    policy, before = (
        Policy([Rule(who=("alice",), allow=("*",)), Rule(allow=("git__*",))]),
        catalog(),
    )
    for principal in (ALICE, ANONYMOUS):
        policy.visible_tools(before, principal)
    newer = before
    for name in ("x", "y"):  # nobody asks in between
        made, _ = build_catalog({"git": ServerLists(tools=[{"name": name}])}, previous=newer)
        newer = replace(made, tools=Records(made.tools))
        policy.prepare(newer)
        policy.serve(newer)
    newer.tools.clear()  # pyright: ignore[reportAttributeAccessIssue]
    assert policy.visible_tools(newer, ANONYMOUS).names == {"git__y"}
    assert not policy.visible_tools(newer, ALICE).names


def test_a_snapshot_that_is_served_no_more_is_let_go() -> None:
    policy, made = Policy(), catalog()
    newer, _ = build_catalog({"git": ServerLists(tools=[{"name": "x"}])}, previous=made)
    before = replace(made, tools=Records(made.tools))
    gone = weakref.ref(before.tools)
    policy.visible_tools(before, ALICE)
    del before
    policy.serve(newer)
    assert gone() is None


class Text(str):
    """A text of which can be told whether anybody still holds it."""

    __slots__ = ("__weakref__",)


def test_caches_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("rules._DECISIONS_KEPT", "rules._CALLERS_KEPT", "policy._VISIBLE_KEPT"):
        monkeypatch.setattr(f"armory.security.{bound}", 2)
    policy, listed = Policy([Rule(allow=("a*",))]), catalog()
    held: dict[str, list[weakref.ref[Text]]] = {}

    def text(kind: str, said: str) -> Text:
        made = Text(said)
        held.setdefault(kind, []).append(weakref.ref(made))
        return made

    def ask(number: int) -> None:
        who = Principal(text("subject", f"p{number}"))
        assert policy.allows(who, text("name", f"a{number}"))
        assert not policy.allows(who, text("name", f"b{number}"))
        assert not policy.allows(who, text("long", f"b{number}{'x' * 255}"))
        assert policy.may_allow(who, text("server", f"a{number}"))
        scope = Scope(text("scope", f"set:{number}"), frozenset(("git",)))
        assert not policy.visible_tools(listed, who).names
        assert not policy.visible_catalog(listed, who, scope).anything

    for number in range(9):
        ask(number)
    gc.collect()
    kept = {kind: sum(one() is not None for one in texts) for kind, texts in held.items()}
    assert kept.pop("long") == 0
    assert max(kept.values()) <= 2, kept


def test_what_was_not_asked_for_longest_is_found_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armory.security.policy._VISIBLE_KEPT", 2)
    policy, listed = Policy(), catalog()
    one, two, three = (Scope(name, frozenset((name,))) for name in ("git", "time", "else"))
    often = policy.visible_catalog(listed, ANONYMOUS, one)
    rarely = policy.visible_catalog(listed, ANONYMOUS, two)
    assert policy.visible_catalog(listed, ANONYMOUS, one) is often
    policy.visible_catalog(listed, ANONYMOUS, three)
    assert policy.visible_catalog(listed, ANONYMOUS, one) is often
    assert policy.visible_catalog(listed, ANONYMOUS, two) is not rarely


def test_a_large_catalog_is_gone_through_by_server_only_for_packs() -> None:
    made = catalog()
    tools = Records(made.tools)
    policy = Policy()
    assert policy.visible_catalog(replace(made, tools=tools), ANONYMOUS).tools.names == set(tools)
    assert not tools.passes
