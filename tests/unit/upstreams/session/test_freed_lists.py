"""Lists that came again: what is needed no longer is freed without holding the event loop."""

from __future__ import annotations

import gc

import pytest

from armory.domain.catalog import ServerLists
from armory.testing.waiting import until
from armory.threads import in_turn
from armory.upstreams.session.lists.server_lists import compared

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
