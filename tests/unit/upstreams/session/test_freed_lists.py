"""Lists that came again: what is needed no longer is freed without holding the event loop."""

from __future__ import annotations

import gc

import pytest

from armory.domain.catalog import ServerLists
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.threads import in_turn, pieces
from armory.upstreams.pool import Pool
from armory.upstreams.session.lists.server_lists import compared
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor

pytestmark = pytest.mark.anyio
MANY = 50_000


def lists(last: str) -> ServerLists:
    names = [*(f"freed{n}" for n in range(MANY - 1)), last]
    return ServerLists(tools=[{"name": name, "inputSchema": {}} for name in names])


def entries() -> int:
    """How many there are in memory."""
    found = [one for one in gc.get_objects() if type(one) is dict]  # at once: none is freed so long
    return sum("inputSchema" in one and str(one.get("name")).startswith("freed") for one in found)


@pytest.mark.parametrize("last", ["freed", "freed_differently"])
async def test_what_is_the_same_again_is_freed_beside_the_event_loop(last: str) -> None:
    before = lists("freed")
    await in_turn(len, ())  # from then on a thread frees
    found = await compared(lists(last), before)
    assert entries() > 1.5 * MANY
    assert (found is before) == (last == "freed")
    await until(lambda: entries() <= MANY + 1)


async def test_lists_that_others_take_the_place_of_are_freed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script()
    script.tools = [{**tool} for tool in lists("freed").tools]
    taken: list[int] = []
    async with HttpUpstream(script, eras="legacy") as server:
        pool = Pool([UpstreamSpec("up", url=server.url)])
        supervisor = Supervisor(pool, lambda _server, found: taken.append(len(found.tools)))
        try:
            await supervisor.start()
            assert await supervisor.wait_first(30)
            await until(lambda: bool(server.gets))
            script.tools = []
            gc.collect()
            assert MANY <= entries() < 1.2 * MANY  # the gateway's own
            monkeypatch.setattr(pieces, "_ASIDE_S", 0.5)
            await server.announce("notifications/tools/list_changed")
            await until(lambda: taken == [MANY, 0])
            await until(lambda: supervisor.status()["up"].tools == 0)
            assert entries() > MANY / 2
            monkeypatch.undo()
            await until(lambda: entries() == 0)
        finally:
            await supervisor.stop()
            await pool.close()
