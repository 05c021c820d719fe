"""Where a list ends that comes in pages."""

from __future__ import annotations

import pytest
from msgspec import Raw

from armory.protocol.capabilities import GROUPS_DECLARED
from armory.protocol.versions import Era
from armory.upstreams.offered.groups import fetch_groups
from armory.upstreams.session.lists.pages import BadList
from tests.unit.upstreams.session.answers import Answers, fetch

pytestmark = pytest.mark.anyio
A = b'{"tools":[{"name":"a"}],"nextCursor":""}'


@pytest.mark.parametrize(
    ("era", "pages", "names"),
    [
        ("modern", [A, b'{"tools":[{"name":"b"}]}'], ["a", "b"]),
        ("modern", [A, b'{"tools":[{"name":"b"}],"nextCursor":"1"}', b'{"tools":[]}'], ["a", "b"]),
        ("modern", [A, A], ["a"]),
        ("modern", [A, b'{"error":-32602}'], ["a"]),
        ("legacy", [A, b'{"tools":[{"name":"b"}]}'], ["a"]),
    ],
    ids=["a page", "two pages", "begins anew", "refused", "ends a legacy list"],
)
async def test_an_empty_cursor_is_one_where_the_revision_says_so(
    era: Era, pages: list[bytes | Exception], names: list[str]
) -> None:
    link = Answers({"tools": {}}, tools=list(pages))
    link.era = era
    assert [tool["name"] for tool in (await fetch(link)).tools] == names
    asked = len(pages) if era == "modern" else 1
    cursors = [None, Raw(b'""'), Raw(b'"1"')][:asked]
    assert link.sent == [("tools/list", cursor) for cursor in cursors]


async def test_what_an_empty_cursor_leads_to_may_be_broken() -> None:
    link = Answers({"tools": {}}, tools=[A, b'{"error":-32603}'])
    link.era = "modern"
    with pytest.raises(BadList, match="refused tools/list: -32603 no"):
        await fetch(link)


@pytest.mark.parametrize("written", [b"null", b"{}", b"[]"])
async def test_a_list_without_entries_may_be_written_in_other_ways(written: bytes) -> None:
    link = Answers({"tools": {}, "prompts": {}}, tools=[b'{"tools":%b}' % written])
    assert (await fetch(link)).tools == []


async def test_what_has_no_list_is_none() -> None:
    for written in (b"{}", b'{"tools":5}', b'{"tools":{"0":{"name":"a"}}}'):
        with pytest.raises(BadList, match="has no array 'tools'"):
            await fetch(Answers({"tools": {}}, tools=[written]))


GROUPS = b'{"groups":[{"name":"a"}],"nextCursor":""}'


@pytest.mark.parametrize(
    ("era", "pages", "names"),
    [
        ("modern", [GROUPS, b'{"groups":[{"name":"b"}]}'], ["a", "b"]),
        ("modern", [GROUPS, GROUPS], ["a"]),
        ("modern", [GROUPS, b'{"error":-32602}'], ["a"]),
        ("legacy", [GROUPS, b'{"groups":[{"name":"b"}]}'], ["a"]),
    ],
    ids=["a page", "begins anew", "refused", "ends a legacy list"],
)
async def test_an_empty_cursor_of_groups_is_one_likewise(
    era: Era, pages: list[bytes | Exception], names: list[str]
) -> None:
    link = Answers(GROUPS_DECLARED, groups=list(pages), group=[b'{"contents":{}}'])
    link.era = era
    found = await fetch_groups(link)  # pyright: ignore[reportArgumentType]
    assert [group.name for group in found] == names
