"""Upstreams whose cursors, numbers and complaints have no end.

Bounded: what of a list's cursors is kept, how large a number counts, what is told further of an
error or a name.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from armory.errors import UpstreamUnavailable
from armory.gateway.calls.task_tools import drive
from armory.protocol.capabilities import GROUPS_DECLARED
from armory.protocol.jsonrpc import code_of, error_of
from armory.protocol.link import Call, Params, Reply
from armory.protocol.versions import Era
from armory.testing.clients.recording import RecordingObserver
from armory.testing.waiting import until
from armory.upstreams.offered.groups import fetch_groups
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.handshake import Incompatible, identity_of_initialization
from armory.upstreams.session.lists.pages import BadList
from armory.upstreams.session.lists.server_lists import fetch_lists
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio
KEPT = 16 * 1024 - 2  # without its quotes
MOST = 2**53 - 1


class Listing(StdioLink):
    """A link without a process that has pages of a list, one after the other."""

    def __init__(self, *pages: bytes) -> None:
        super().__init__(LinkContext(UpstreamSpec("up", command="none"), {}, RecordingObserver()))
        capabilities = {"tools": {}, **GROUPS_DECLARED}
        self.adopt(Identity("modern", "2026-07-28", capabilities))
        self.pages = list(pages)

    async def request(self, call: Call) -> Reply:
        return Reply(result=Raw(self.pages.pop(0)))


def page(member: str, cursor: str) -> bytes:
    return f'{{"{member}":[],"nextCursor":"{cursor}"}}'.encode()


async def tools_of(*pages: bytes) -> Any:
    return await fetch_lists(Listing(*pages))


async def test_a_cursor_may_be_so_long_and_not_longer() -> None:
    assert not (await tools_of(page("tools", "x" * KEPT), b'{"tools":[]}')).tools
    says = "tools/list has a nextCursor of 16,385 bytes, more than the 16,384 that are kept"
    with pytest.raises(BadList, match=says):
        await tools_of(page("tools", "x" * (KEPT + 1)), b'{"tools":[]}')


async def test_a_cursor_of_groups_as_well() -> None:
    listing = Listing(page("groups", "x" * KEPT), b'{"groups":[]}')
    assert await fetch_groups(listing) == ()
    listing = Listing(page("groups", "x" * (KEPT + 1)), b'{"groups":[]}')
    with pytest.raises(UpstreamUnavailable, match="groups/list has a nextCursor of 16,385 bytes"):
        await fetch_groups(listing)


async def test_of_many_groups_that_are_none_some_are_read_and_few_logged() -> None:
    many = ",".join(["1"] * 1_000)
    pages = [f'{{"groups":[{many}],"nextCursor":"{n}"}}'.encode() for n in range(100)]
    listing = Listing(*pages)
    with capture_logs() as logs:
        assert await fetch_groups(listing) == ()
    assert len(listing.pages) == 100 - 21  # 20,000 entries, and the page that has more
    assert len(logs) == 20 + 1  # the last says that no more are


@pytest.mark.parametrize("said", [str(2**53), "1e300", "9" * 1_000])
async def test_a_list_is_kept_no_longer_than_a_number_may_say(said: str) -> None:
    lists = await tools_of(f'{{"tools":[],"ttlMs":{said}}}'.encode())
    assert lists.cache == {"tools/list": (MOST, "private")}


async def test_a_task_is_asked_after_however_large_its_interval_is() -> None:
    asked = asyncio.Event()

    async def send(method: str, params: Params) -> Reply:
        del params
        if method == "tasks/cancel":
            asked.set()
        task = b'{"taskId":"t","status":"working","pollInterval":%b}' % (b"9" * 400)
        return Reply(Raw(b'{"task":%b}' % task))

    driving = asyncio.create_task(drive("up", {}, send))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not driving.done()  # it waits, as for any interval
    driving.cancel()
    await asyncio.wait_for(asked.wait(), 10)
    await asyncio.wait([driving], timeout=10)


# -- what is told further --------------------------------------------------------------------------

MUCH = "x" * 1_000_000


def refusing(said: str) -> Reply:
    return Reply(error=Raw(b'{"code":-32000,"message":"%b"}' % said.encode()))


async def test_of_a_long_error_the_beginning_is_told() -> None:
    class Refusing(Listing):
        async def request(self, call: Call) -> Reply:
            return refusing(MUCH)

    link = Refusing()
    with pytest.raises(BadList, match="refused tools/list: -32000 xxx") as told:
        await fetch_lists(link)
    assert len(str(told.value)) < 5_000
    with pytest.raises(Incompatible, match="refused to initialize: -32000 xxx") as met:
        identity_of_initialization(link, refusing(MUCH))
    assert len(str(met.value)) < 5_000
    assert len(str(link.unavailable(MUCH))) < 6_000
    assert len(str(link.unintelligible(MUCH))) < 6_000


def test_of_a_long_code_nothing_is_told() -> None:
    said = Raw(b'{"code":%b,"message":"m"}' % (b"9" * 4_000))
    assert error_of(said).code == code_of(said) == -32603


def test_of_a_long_revision_the_beginning_is_told() -> None:
    link = Listing()
    answer = Reply(Raw(b'{"protocolVersion":"%b","capabilities":{}}' % MUCH[:500_000].encode()))
    with pytest.raises(Incompatible, match="answered initialize with revision") as told:
        identity_of_initialization(link, answer)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_of_a_long_method_the_beginning_is_told(era: Era) -> None:
    link = Listing()
    link.adopt(Identity(era, "2025-11-25"))
    with capture_logs() as logs:
        link.received(b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % MUCH.encode())
        await until(lambda: any("method" in line for line in logs))
    assert max(len(str(line)) for line in logs) < 1_000
    await link.close()
