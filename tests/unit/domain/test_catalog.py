"""Snapshots: merged, numbered, compared; a bad entry costs only itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, cast

import pytest

from armory.domain import catalog_builder
from armory.domain.catalog import EMPTY, ServerLists, ToolRules
from armory.domain.catalog_builder import CatalogBuilder, build_catalog, with_shared_entries
from armory.domain.query import VisibleSet
from armory.domain.tool import (
    MAX_ABOUT_CHARS,
    MAX_KEYWORD_CHARS,
    MAX_KEYWORDS,
    ToolRecord,
    fingerprint,
)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def test_records_hold_the_upstreams_json_verbatim() -> None:
    definition = tool("now", description="d", odd={"kept": True})
    lists = ServerLists(
        tools=[definition],
        prompts=[{"name": "p.q"}],
        resources=[{"uri": "file:///a"}],
        templates=[{"uriTemplate": "file:///{x}"}],
        info={"name": "clock", "title": "Clock", "description": "The time."},
        instructions="Ask for a zone. " + "x" * 2_000,
    )
    catalog, problems = build_catalog({"time": lists})
    assert problems == []
    assert catalog.version == 1
    record = catalog.tools["time__now"]
    assert record.definition is definition
    assert (record.server, record.original_name) == ("time", "now")
    assert (record.description, record.server_title) == ("d", "Clock")
    assert record.server_about.startswith("The time. Ask for a zone. x")
    assert len(record.server_about) == MAX_ABOUT_CHARS
    assert catalog.prompts["time__p_q"].original_name == "p.q"
    assert list(catalog.resources) == ["time+file:///a"]
    assert list(catalog.templates) == ["time+file:///{x}"]


@pytest.mark.parametrize(
    ("keywords", "about"),
    [
        (["payments", 3, " refunds\n"], "payments refunds\nFor money."),
        ("payments", "For money."),
        ([None], "For money."),
        (["x" * 1_000], "x" * MAX_KEYWORD_CHARS + "\nFor money."),
        (["k"] * 1_000, "k " * (MAX_KEYWORDS - 1) + "k\nFor money."),
    ],
)
def test_a_servers_keywords_are_what_it_is_found_by(keywords: Any, about: str) -> None:
    info = {"name": "s", "keywords": keywords, "description": "For money."}
    catalog, problems = build_catalog({"s": ServerLists(tools=[tool("a")], info=info)})
    assert problems == []
    assert catalog.tools["s__a"].server_about == about


def test_malformed_and_repeated_entries_are_left_out_and_reported() -> None:
    tools: list[Any] = ["no", {"name": 3}, {"name": ""}, tool("a"), tool("a", description="2")]
    catalog, problems = build_catalog({"s": ServerLists(tools=tools, info={"title": 4})})
    assert list(catalog.tools) == ["s__a"]
    assert catalog.tools["s__a"].description == ""
    assert catalog.tools["s__a"].server_title == ""
    assert len(problems) == 4


def test_rules_choose_rename_describe_and_tag_tools() -> None:
    rules = ToolRules(
        allow=("get*", "put*"),
        deny=("*secret",),
        rename={"get.it": "fetch"},
        describe={"get.it": "gets it"},
        tags={"get*": ("read", "safe"), "*.it": ("safe", "it")},
        category="io",
    )
    lists = ServerLists(
        tools=[tool("get.it"), tool("get_secret"), tool("drop"), tool("put"), tool("get2")]
    )
    catalog, problems = build_catalog({"s": lists}, {"s": rules})
    assert list(catalog.tools) == ["s__fetch", "s__put", "s__get2"]
    record = catalog.tools["s__fetch"]
    assert record.original_name == "get.it"
    assert (record.description, record.tags, record.category) == (
        "gets it",
        ("read", "safe", "it"),
        "io",
    )
    assert problems == []


@pytest.mark.parametrize(
    ("rename", "plain", "others"),
    [
        ({"a": "b"}, {"s__b": "a", "s__c": "c"}, {"b"}),  # what the operator calls so goes first
        ({"a": "c", "b": "c"}, {}, {"a", "b", "c"}),
        ({"a": "b", "b": "c", "c": "a"}, {"s__b": "a", "s__c": "b", "s__a": "c"}, set[str]()),
        ({"a": "gone"}, {"s__gone": "a", "s__b": "b", "s__c": "c"}, set[str]()),
    ],
)
@pytest.mark.parametrize("order", ["abc", "cba"])
def test_a_tool_that_is_renamed_to_a_taken_name_costs_no_other(
    order: str, rename: dict[str, str], plain: dict[str, str], others: set[str]
) -> None:
    lists = ServerLists(tools=[tool(name) for name in order])
    catalog, problems = build_catalog({"s": lists}, {"s": ToolRules(rename=rename)})
    found = {name: record.original_name for name, record in catalog.tools.items()}
    assert {name: own for name, own in found.items() if own not in others} == plain
    assert sorted(found.values()) == ["a", "b", "c"]
    digests = {own: hashlib.sha256(f"s\0{own}".encode()).hexdigest()[:6] for own in others}
    assert {name[-7:] for name, own in found.items() if own in others} == {
        f"_{digest}" for digest in digests.values()
    }
    assert len(problems) == len(others)
    assert all("taken by a rename" in problem for problem in problems)


def test_equal_content_is_the_same_snapshot() -> None:
    first, _ = build_catalog({"s": ServerLists(tools=[tool("a")])})
    again, _ = build_catalog({"s": ServerLists(tools=[tool("a")])}, previous=first)
    assert again is first
    told, _ = build_catalog(
        {"s": ServerLists(tools=[tool("a")], instructions="new")}, previous=first
    )
    assert told is not first
    assert told.version == 2
    assert not told.diff(first)
    assert told.tools["s__a"].server_about == "new", "it is searched by what is said now"


def test_order_alone_makes_a_new_snapshot() -> None:
    first, _ = build_catalog({"s": ServerLists(tools=[tool("a"), tool("b")])})
    turned, _ = build_catalog({"s": ServerLists(tools=[tool("b"), tool("a")])}, previous=first)
    assert turned is not first


def test_a_diff_names_what_came_went_and_changed() -> None:
    first, _ = build_catalog(
        {"s": ServerLists(tools=[tool("a"), tool("b")], prompts=[{"name": "p"}])}
    )
    second, _ = build_catalog(
        {"s": ServerLists(tools=[tool("b", description="x"), tool("c")])}, previous=first
    )
    diff = second.diff(first)
    assert diff.tools.added == ("s__c",)
    assert diff.tools.removed == ("s__a",)
    assert diff.tools.changed == ("s__b",)
    assert [*diff.tools.names()] == ["s__c", "s__a", "s__b"]
    assert diff.prompts.removed == ("s__p",)
    assert not diff.resources
    assert first.diff(EMPTY)


def test_fingerprints_are_kept_for_the_same_object() -> None:
    definition = tool("a")
    builder = CatalogBuilder()
    first, _ = builder.build({"s": ServerLists(tools=[definition])})
    second, _ = builder.build({"s": ServerLists(tools=[definition, tool("b")])}, None, first)
    assert second.tools["s__a"].fingerprint is first.tools["s__a"].fingerprint
    assert fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("was", "now"),
    [(1, True), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"a": 0}, {"a": False}), ("1", 1)],
)
def test_values_that_python_holds_to_be_equal_are_a_change(was: object, now: object) -> None:
    builder = CatalogBuilder()
    first, _ = builder.build({"s": ServerLists(tools=[tool("a", default=was)])})
    second, _ = builder.build({"s": ServerLists(tools=[tool("a", default=now)])}, None, first)
    record = second.tools["s__a"]
    assert record.definition["default"] is now
    assert record.fingerprint == fingerprint(tool("a", default=now))
    assert record.fingerprint != first.tools["s__a"].fingerprint


def test_a_list_that_comes_again_costs_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    def given() -> dict[str, ServerLists]:
        return {"s": ServerLists(tools=[tool(f"t{i}", inputSchema={"n": i}) for i in range(9)])}

    builder = CatalogBuilder()
    first, _ = builder.build(given())
    taken: list[object] = []
    monkeypatch.setattr(catalog_builder, "fingerprint", taken.append)
    second, _ = builder.build(given(), None, first)
    assert second is first
    assert taken == []


def test_titles_annotations_schemas_of_odd_definitions() -> None:
    def record(**definition: Any) -> ToolRecord:
        return ToolRecord("s__x", "s", "x", definition, "")

    assert record(title="T").title == "T"
    assert record(annotations={"title": "A"}).title == "A"
    assert record(annotations={"title": 3}).title == ""
    assert record(annotations=[]).annotations == {}
    assert record(inputSchema=[]).input_schema == {}
    schema = {"type": "object", "x": 1}
    assert record(inputSchema=schema).input_schema is schema
    assert record(inputSchema=schema).arguments_schema is schema
    for odd in ({"x": 1}, {"type": "string", "x": 1}):
        assert record(inputSchema=odd).arguments_schema == schema
    assert record().arguments_schema == {"type": "object"}


def test_visible_sets_are_counted_and_compared_by_identity() -> None:
    names = frozenset(("a", "b"))
    assert len(VisibleSet(names)) == 2
    assert VisibleSet(names) != VisibleSet(names)


def test_the_next_snapshot_is_the_one_made_anew() -> None:
    builder, previous = CatalogBuilder(), EMPTY
    names = ("read", "write", "list")
    lists = {server: ServerLists(tools=[{"name": name} for name in names]) for server in "abc"}
    rules = {"b": ToolRules(deny=("write",))}
    for turn in range(6):
        lists["b"] = ServerLists(tools=[{"name": name, "turn": turn // 2} for name in names])
        if turn == 3:
            lists["c"] = ServerLists(tools=[{"name": "read", "open": True}, {"name": ""}])
            rules = {"a": ToolRules(rename={"read": "get"})}
        if turn == 5:
            del lists["a"]
        previous, problems = builder.build(lists, rules, previous)
        anew, same_problems = build_catalog(lists, rules)
        assert list(previous.tools.items()) == list(anew.tools.items())
        assert problems == same_problems


def test_what_did_not_change_is_the_very_record() -> None:
    builder = CatalogBuilder()
    quiet = ServerLists(tools=[{"name": "read"}])
    lists = {"a": quiet, "b": ServerLists(tools=[{"name": "x", "strict": 1}, {"name": "y"}])}
    first, _ = builder.build(lists)
    lists["b"] = ServerLists(tools=[{"name": "x", "strict": True}, {"name": "y"}])
    second, _ = builder.build(lists, None, first)
    assert [second.tools[name] is tool for name, tool in first.tools.items()] == [True, False, True]
    assert second.tools["b__x"].definition["strict"] is True
    assert [*second.diff(first).tools.names()] == ["b__x"]
    assert builder.build({**lists, "b": lists["b"]}, None, second)[0] is second


def test_entries_that_another_has_likewise_are_held_once() -> None:
    def lists(*tools: Any, **more: Any) -> ServerLists:
        return ServerLists(tools=tools, **more)

    everybody = lists(tool("a"), tool("b"), tool("c", x=1))
    same, own = with_shared_entries(lists(tool("a"), tool("b"), tool("c", x=1)), everybody)
    assert (same, own) == (everybody, 0)
    assert same is everybody
    mine = tool("c", x=True)  # equal in Python, not in JSON
    found, own = with_shared_entries(lists(tool("b"), mine, tool("d"), tool("b")), everybody)
    assert [entry["name"] for entry in found.tools] == ["b", "c", "d", "b"]
    assert found.tools[0] is found.tools[3] is everybody.tools[1]
    assert found.tools[1] is mine
    assert own == 2
    other = lists(*everybody.tools, instructions="more")
    assert with_shared_entries(other, everybody) == (other, 0)
    assert with_shared_entries(other, everybody)[0] is other
    fewer, own = with_shared_entries(lists(tool("a")), everybody)
    assert (len(fewer.tools), own) == (1, 0)


def test_records_of_the_snapshot_before_are_taken_over() -> None:
    lists = ServerLists(tools=[tool("a"), tool("b")])
    before, _ = build_catalog({"up": lists, "other": lists})
    changed = ServerLists(tools=[tool("a"), tool("b", description="new")])
    now, _ = build_catalog({"up": changed}, previous=before)
    assert now.tools["up__a"] is before.tools["up__a"]
    assert now.tools["up__b"].description == "new"


@pytest.mark.parametrize(
    ("kind", "key"), [("prompts", "name"), ("resources", "uri"), ("templates", "uriTemplate")]
)
def test_what_else_did_not_change_is_the_very_record_too(kind: str, key: str) -> None:
    def lists(*sizes: object) -> ServerLists:
        made = [{key: f"x:{number}", "size": size} for number, size in enumerate(sizes)]
        return replace(ServerLists(), **cast("Any", {kind: made}))

    builder = CatalogBuilder()
    first, _ = builder.build({"up": lists(1, 2), "other": lists(1)})
    for now, _ in (
        builder.build({"up": lists(1, 2.0, 3), "other": lists(1)}, previous=first),
        build_catalog({"up": lists(1, 2.0, 3), "other": lists(1)}, previous=first),
    ):
        before, after = getattr(first, kind), getattr(now, kind)
        assert [after[name] is record for name, record in before.items()] == [True, False, True]
        assert len(after) == 4
        anew, _ = build_catalog({"up": lists(1, 2.0, 3), "other": lists(1)})
        assert list(after.items()) == list(getattr(anew, kind).items())
