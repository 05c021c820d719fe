from __future__ import annotations

import asyncio
import itertools
import json
import operator
import tracemalloc
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import decode, encode

from armory.domain.catalog import ServerLists
from armory.errors import UpstreamUnavailable
from armory.protocol.scanning import pieces
from armory.testing.upstreams.exchange import definition
from armory.upstreams.session.lists import pages
from armory.upstreams.session.lists.entries import MAX_VALUES
from armory.upstreams.session.lists.pages import MAX_PAGES, BadList
from armory.upstreams.session.lists.server_lists import compared
from tests.unit.upstreams.session.answers import Answers, fetch

pytestmark = pytest.mark.anyio

ALL: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}


async def test_all_pages_of_all_lists() -> None:
    link = Answers(
        ALL,
        tools=[b'{"tools":[{"name":"a"}],"nextCursor":"1"}', b'{"tools":[{"name":"b"}]}'],
        prompts=[b'{"prompts":[{"name":"p"}],"nextCursor":null}'],
        resources=[b'{"resources":[{"uri":"u"}],"nextCursor":""}'],
        templates=[b'{"resourceTemplates":[{"uriTemplate":"t"}]}'],
    )
    lists = await fetch(link)
    assert [tool["name"] for tool in lists.tools] == ["a", "b"]
    assert (lists.prompts, lists.resources) == ([{"name": "p"}], [{"uri": "u"}])
    assert lists.templates == [{"uriTemplate": "t"}]
    assert (lists.info, lists.instructions, lists.capabilities) == ({"name": "n"}, "do", ALL)
    assert link.sent[1] == ("tools/list", Raw(b'"1"'))


async def test_only_what_is_promised_is_asked_for() -> None:
    link = Answers({"prompts": {}}, prompts=[b'{"prompts":[]}'])
    await fetch(link)
    assert [method for method, _ in link.sent] == ["prompts/list"]
    early = Answers({}, tools=[b'{"tools":[{"name":"a"}]}'])
    assert len((await fetch(early)).tools) == 1
    assert [method for method, _ in early.sent] == ["tools/list"]


async def test_numbers_of_definitions_keep_all_their_digits() -> None:
    link = Answers(
        {"tools": {}},
        tools=[b'{"tools":[{"name":"a","n":123456789012345678901234567890,"f":1.5}]}'],
    )
    (tool,) = (await fetch(link)).tools
    assert tool == {"name": "a", "n": 123456789012345678901234567890, "f": 1.5}


async def test_one_entry_that_cannot_be_read_costs_itself() -> None:
    link = Answers({"tools": {}}, tools=[b'{"tools":[{"name":"a"},{"name":"b","x":1e999}]}'])
    assert [tool["name"] for tool in (await fetch(link)).tools] == ["a"]


async def test_nesting_without_end_is_a_broken_list() -> None:
    deep = b"[" * 2_000_000 + b"]" * 2_000_000  # Python 3.14 reads what the stack has room for
    with pytest.raises(BadList):
        await fetch(Answers({"tools": {}}, tools=[b'{"tools":[{"name":"a","x":' + deep + b"}]}"]))


async def test_a_list_that_fails_never_costs_the_tools() -> None:
    before = ServerLists(prompts=[{"name": "old"}], resources=[{"uri": "old"}])
    link = Answers(
        ALL,
        tools=[b'{"tools":[{"name":"a"}]}'],
        prompts=[UpstreamUnavailable("slow")],
        resources=[b'{"resources":{"not":"an array"}}'],
        templates=[b"[]"],
    )
    lists = await fetch(link, before=before)
    assert len(lists.tools) == 1
    assert (lists.prompts, lists.resources) == ([{"name": "old"}], [{"uri": "old"}])
    assert lists.templates == []


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b'{"error":-32603}', "refused tools/list: -32603 no"),
        (b"[]", "is no object"),
        (b'{"tools":3}', "no array 'tools'"),
        (b'{"tools":[],"nextCursor":"again"}', "repeats a cursor"),
    ],
)
async def test_a_broken_list_of_tools_is_an_error(page: bytes, message: str) -> None:
    with pytest.raises(BadList, match=message):
        await fetch(Answers({"tools": {}}, tools=[page]))


async def test_a_list_without_end_is_an_error() -> None:
    pages: list[bytes | Exception] = [
        b'{"tools":[],"nextCursor":"%d"}' % n for n in range(MAX_PAGES + 5)
    ]
    with pytest.raises(BadList, match="has no end"):
        await fetch(Answers({"tools": {}}, tools=pages))


async def test_a_list_that_takes_too_long_costs_the_tools_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "LONGEST_S", -1.0)
    page = b'{"tools":[{"name":"%s"}]%s}'
    endless: list[bytes | Exception] = [
        b'{"resources":[{"uri":"u%d"}],"nextCursor":"%d"}' % (n, n) for n in range(9)
    ]
    link = Answers(
        {"tools": {}, "resources": {}},
        tools=[page % (b"a", b',"nextCursor":"1"'), page % (b"b", b"")],
        resources=endless,
        templates=[b'{"resourceTemplates":[{"uriTemplate":"t"}]}'],
    )
    lists = await fetch(link, before=ServerLists(resources=[{"uri": "old"}]))
    assert [tool["name"] for tool in lists.tools] == ["a", "b"]
    assert (lists.resources, lists.templates) == ([{"uri": "old"}], [{"uriTemplate": "t"}])
    assert len(link.sent) == 4


async def test_an_unknown_method_is_an_empty_list() -> None:
    assert (await fetch(Answers({"tools": {}}, tools=[b'{"error":-32601}']))).tools == []


async def test_cache_hints_are_the_least_of_all_pages() -> None:
    link = Answers(
        ALL,
        tools=[
            b'{"tools":[],"nextCursor":"1","ttlMs":5000,"cacheScope":"public"}',
            b'{"tools":[],"ttlMs":300.0,"cacheScope":"private"}',
        ],
        prompts=[b'{"prompts":[],"ttlMs":-1,"cacheScope":"public"}'],
        resources=[b'{"resources":[]}'],
        templates=[b'{"resourceTemplates":[],"ttlMs":"odd"}'],
    )
    assert (await fetch(link)).cache == {
        "tools/list": (300, "private"),
        "prompts/list": (0, "public"),
        "resources/templates/list": (0, "private"),
    }


async def test_tools_with_invalid_header_annotations_are_left_out() -> None:
    def tool(name: str, annotation: Any) -> dict[str, Any]:
        properties = {"r": {"type": "string", "x-mcp-header": annotation}}
        return definition(name, inputSchema={"type": "object", "properties": properties})

    page = encode({"tools": [tool("good", "Region"), tool("bad", "no token"), {"name": "plain"}]})
    for rules, names in ((True, ["good", "plain"]), (False, ["good", "bad", "plain"])):
        link = Answers({"tools": {}}, tools=[page])
        link.mirrors_params = rules
        lists = await fetch(link)
        assert [tool["name"] for tool in lists.tools] == names


async def test_a_list_may_have_so_many_entries_and_not_one_more() -> None:
    def link() -> Answers:
        return Answers(
            {"tools": {}},
            tools=[b'{"tools":[{"name":"a"}],"nextCursor":"1"}', b'{"tools":[{"name":"b"}]}'],
        )

    assert len((await fetch(link(), max_entries=2)).tools) == 2
    with pytest.raises(BadList, match=r"more than 1 entries; server\.limits\.list_entries"):
        await fetch(link(), max_entries=1)


async def test_lists_may_take_so_much_memory_and_no_more() -> None:
    def link() -> Answers:
        pages = [b'{"tools":[{"name":"%b","x":[%b0]}]' % (name, b"0," * 9) for name in (b"a", b"b")]
        return Answers({"tools": {}}, tools=[pages[0] + b',"nextCursor":"1"}', pages[1] + b"}"])

    assert len((await fetch(link(), max_bytes=2_000)).tools) == 2
    with pytest.raises(BadList, match=r"more than 1,000 bytes in memory.*limits\.list_bytes"):
        await fetch(link(), max_bytes=1_000)


async def test_a_list_that_takes_too_much_leaves_room_for_those_after_it() -> None:
    wide = b'{"prompts":[{"name":"p","x":[%b0]}]}' % (b"0," * 50)
    link = Answers(
        {"tools": {}, "prompts": {}, "resources": {}},
        tools=[b'{"tools":[{"name":"a"}]}'],
        prompts=[wide],
        resources=[b'{"resources":[{"uri":"file:///a"}]}'],
        templates=[b'{"resourceTemplates":[{"uriTemplate":"file:///{a}"}]}'],
    )
    lists = await fetch(link, max_bytes=1_000)
    assert (len(lists.tools), len(lists.prompts)) == (1, 0)
    assert (len(lists.resources), len(lists.templates)) == (1, 1)


async def test_a_definition_has_so_many_values_and_no_more() -> None:
    wide = b'{"name":"wide","x":[%b0]}' % (b"0," * MAX_VALUES)
    lists = await fetch(Answers({"tools": {}}, tools=[b'{"tools":[{"name":"a"},%b]}' % wide]))
    assert [tool["name"] for tool in lists.tools] == ["a"]
    assert lists.dropped[0].reason == "it has more than 50,000 values"


@pytest.mark.parametrize(("rules", "least"), [(False, 49), (True, 98)])
async def test_a_long_list_leaves_the_loop_to_others(
    monkeypatch: pytest.MonkeyPatch, rules: bool, least: int
) -> None:
    monkeypatch.setattr(pages, "_TURN_S", -1.0)
    tools = b",".join(encode(definition(f"t{n}")) for n in range(50))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    link = Answers({"tools": {}}, tools=[b'{"tools":[' + tools + b"]}"])
    link.mirrors_params = rules  # these look at each once more
    found = await fetch(link)
    beside.cancel()
    assert len(found.tools) == 50
    assert turns >= least


async def test_entries_of_a_long_list_keep_the_loop_for_a_millisecond_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count(step=0.0003)  # so long an entry takes
    monkeypatch.setattr(pages, "monotonic", lambda: next(clock))
    tools = b",".join(encode(definition(f"t{n}")) for n in range(100))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = await fetch(Answers({"tools": {}}, tools=[b'{"tools":[' + tools + b"]}"]))
    beside.cancel()
    assert len(found.tools) == 100
    assert turns >= 100 * 0.0003 / 0.0015


async def test_skills_are_asked_for_where_they_are_offered_and_bad_ones_left_out() -> None:
    good = (
        b'{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","description":"d"},'
        b'"resources":"dynamic"}'
    )
    page = b'{"skills":[' + good + b',{"uri":"skill://b/SKILL.md"}]}'
    offered = {"tools": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}
    lists = await fetch(Answers(offered, tools=[b'{"tools":[]}'], skills=[page]))
    assert [skill["uri"] for skill in lists.skills] == ["skill://a/SKILL.md"]
    assert [(entry.list, entry.entry) for entry in lists.dropped] == [
        ("skills/list", "skill://b/SKILL.md")
    ]


async def test_the_name_of_what_is_left_out_is_looked_at_where_it_is_short() -> None:
    wide = b'{"name":[%b[]]}' % (b"[]," * 300_000)
    link = Answers({"tools": {}}, tools=[b'{"tools":[%b,{"name":7}]}' % wide])
    await fetch(link)  # what is imported and compiled once is no matter of this list
    tracemalloc.start()
    lists = await fetch(link)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [entry.entry for entry in lists.dropped] == ["#0", "#1"]
    assert peak < 5_000_000


async def test_a_list_of_nothing_but_very_many_bad_entries_is_given_up() -> None:
    link = Answers({"tools": {}}, tools=[b'{"tools":[%b[]]}' % (b"[]," * 300_000)])
    with pytest.raises(BadList, match=r"more than 1,000 entries; server\.limits\.list_entries"):
        await fetch(link, max_entries=1_000)


async def test_what_the_link_left_out_is_told() -> None:
    link = Answers({"tools": {}}, tools=[b'{"tools":[]}'])
    link.left_out = {"tools/list": [("op", "why")]}
    lists = await fetch(link)
    assert [(entry.entry, entry.reason) for entry in lists.dropped] == [("op", "why")]


def _many(count: int) -> list[dict[str, Any]]:
    kinds = [{"const": 1}, {"const": 2}]
    return [
        {"name": f"tool{i}", "description": "}, {" * 3, "inputSchema": {"anyOf": kinds}}
        for i in range(count)
    ]


async def rounds_of(work: Coroutine[Any, Any, Any]) -> int:
    """Rounds of the event loop in which others had their turn while it was done."""
    rounds = 0
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    await task
    return rounds


@pytest.mark.parametrize("dumps", [json.dumps, encode])
async def test_no_turn_opens_much_of_a_large_list(
    dumps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def seen(raw: Raw | bytes) -> list[Raw]:
        sizes.append(len(memoryview(raw)))
        return decode(raw, type=list[Raw])

    monkeypatch.setattr(pieces, "_items", seen)
    tools = _many(20_000)
    said = dumps({"tools": tools})
    page = said.encode() if isinstance(said, str) else said
    assert (await fetch(Answers({"tools": {}}, tools=[page]))).tools == tools
    assert len(sizes) > len(page) // (100 * 1024)
    assert max(sizes) < 100 * 1024


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources", "templates", "skills"])
async def test_large_lists_are_compared_beside_the_loop(kind: str) -> None:
    many: list[dict[str, Any]] = _many(20_000)

    def lists(*entries: dict[str, Any]) -> ServerLists:
        named = [{**entry, "uri": entry["name"], "uriTemplate": entry["name"]} for entry in entries]
        more: dict[str, Any] = {kind: named}
        return ServerLists(**more)

    one = lists(*many)
    assert await compared(lists(*many), one) is one
    assert await rounds_of(compared(lists(*many), one)) >= 10
    for other in (lists(*many[:-1], {"name": "other"}), lists(*many[:-1])):
        found = await compared(other, one)
        assert found.same(other)
        assert all(map(operator.is_, getattr(found, kind)[:-1], getattr(one, kind)))
    other = replace(lists(*many), instructions="more")
    assert (await compared(other, one)).same(other)
    assert await compared(other, None) is other


async def test_what_leads_back_to_the_gateway_is_left_out() -> None:
    link = Answers(
        ALL,
        tools=[b'{"tools":[{"name":"notes__add"},{"name":"up__notes__add"},{"name":"up__x"}]}'],
        prompts=[b'{"prompts":[{"name":"notes__p"},{"name":"up__notes__p"}]}'],
        resources=[b'{"resources":[{"uri":"notes+u:/"},{"uri":"up+notes+u:/"}]}'],
        templates=[b'{"resourceTemplates":[{"uriTemplate":"t+{a}"},{"uriTemplate":"up+t+{a}"}]}'],
    )
    lists = await fetch(link)
    assert [tool["name"] for tool in lists.tools] == ["notes__add", "up__x"]
    assert [len(entries) for entries in (lists.prompts, lists.resources, lists.templates)] == [
        1
    ] * 3
    assert [entry.entry for entry in lists.dropped] == [
        "up__notes__add", "up__notes__p", "up+notes+u:/", "up+t+{a}",
    ]  # fmt: skip
    assert lists.dropped[0].reason.startswith("it leads back here")
