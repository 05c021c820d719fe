"""What `armory validate --connect` says of names that fit nothing."""

from __future__ import annotations

from armory.config import load_text
from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.runtime.blocks.upstreams import tool_rules
from armory.runtime.catalog.unmatched import unmatched_names

TOOLS = ("get_current_time", "convert_time")


def said(text: str) -> list[str]:
    config = load_text(text, environ={}).config
    lists = {"time": ServerLists(tools=[{"name": name, "inputSchema": {}} for name in TOOLS])}
    rules = {key: tool_rules(block) for key, block in config.upstreams.items()}
    catalog, _ = build_catalog(lists, rules)
    return unmatched_names(config, catalog)


def of_time(tools: str) -> list[str]:
    return said(f"upstreams: {{time: {{command: python, tools: {tools}}}}}")


def test_a_server_s_own_names_are_compared_with_what_it_lists() -> None:
    assert of_time("{rename: {now: get_current_time}}") == [
        "upstreams.time.tools.rename: 'now' is no tool of this server; there are: "
        "get_current_time, convert_time"
    ]
    (misspelt,) = of_time("{deny: [convert_tme]}")
    assert misspelt.endswith("; did you mean 'convert_time'?")
    (exposed,) = of_time("{pin: [time__convert_time]}")
    assert exposed.startswith("upstreams.time.tools.pin: 'time__convert_time'")
    assert exposed.endswith("as its server calls it: 'convert_time'")
    (pattern,) = of_time("{describe: {'get_*': The time}}")
    assert pattern.startswith("upstreams.time.tools.describe: 'get_*'")


def test_nothing_is_said_of_names_that_are_there_and_of_patterns() -> None:
    everything = "rename: {get_current_time: now}, pin: [convert_time], deny: ['set_*', 'x?']"
    assert (
        of_time(f"{{{everything}, tags: {{'c*': [a]}}, describe: {{convert_time: Another}}}}") == []
    )


def test_exposed_names_are_compared_with_what_is_offered() -> None:
    text = """
upstreams: {time: {command: python, tools: {rename: {get_current_time: now}}}}
tool_rag: {pin: [time__now, search_tools, convert_time]}
sets: {s: {tools: [time__get_current_time]}}
security:
  policies: [{allow: ["time__*", "notes+file:///a"], deny: [time__convert]}]
"""
    places = [line.partition(" is ")[0] for line in said(text)]
    assert places == [
        "tool_rag.pin: 'convert_time'",
        "sets.s.tools: 'time__get_current_time'",
        "security.policies[0].deny: 'time__convert'",
    ]


def test_what_a_server_that_is_down_may_have_is_not_doubted() -> None:
    text = """
upstreams: {time: {command: python}, notes: {command: python}, off: {command: x, enabled: false}}
tool_rag: {pin: [notes__add, add, off__x, time__x]}
"""
    assert [line.partition(" is ")[0] for line in said(text)] == [
        "tool_rag.pin: 'off__x'",
        "tool_rag.pin: 'time__x'",
    ]
