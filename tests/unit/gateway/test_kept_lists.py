"""Which lists of single principals are kept, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL
from armory.gateway.settings import GatewaySettings
from armory.gateway.views import list_store
from armory.protocol.link import Owner
from armory.testing.front import tool

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


async def test_hundreds_of_callers_with_several_such_upstreams_keep_what_they_were_given(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    everybody = bench.gateway.view.catalog.servers["up"].tools

    async def fetch(_server: str, owner: Owner, _declared: object) -> ServerLists:
        fetched.append(owner.principal.subject)
        return ServerLists(tools=[dict(entry) for entry in everybody])

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    lists = bench.gateway.principal_lists
    callers = [Owner(Principal(f"p{number}")) for number in range(1_500)]
    for _ in range(2):
        for caller in callers:
            await lists.prepare(caller, ALL, current=False)
    assert len(fetched) == len(lists) == len(callers)
    await bench.gateway.close()


async def test_of_lists_that_were_fetched_again_none_is_counted_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_store, "OWN_BYTES", 400)

    async def fetch(_server: str, owner: Owner, _declared: object) -> ServerLists:
        return ServerLists(tools=[tool(owner.principal.subject, "mine")], size_bytes=100)

    monkeypatch.setattr(bench.pool, "fetch_lists", fetch)
    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    lists = bench.gateway.principal_lists
    for number in (0, 1, 2, 0, 1, 2, 0, 1, 2):
        for held in lists.lists_for(Owner(Principal(f"p{number}")), ALL):
            held.until = 0.0
        await lists.prepare(Owner(Principal(f"p{number}")), ALL, current=True)
    kept = [lists.lists_for(Owner(Principal(f"p{n}")), ALL)[0].lists is not None for n in range(3)]
    assert kept == [True, True, True]
    await bench.gateway.close()


async def test_only_what_a_client_alone_was_shown_goes_with_its_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    lists = bench.gateway.principal_lists
    ann = Principal("ann")
    keys: dict[str | None, str] = {"own": "session:own", "shared": ann.key, "later": ann.key}

    def key(_server: str, owner: Owner) -> str:
        return keys[owner.session_id]

    monkeypatch.setattr(bench.pool, "key", key)
    for session in keys:
        await lists.prepare(Owner(ann, session_id=session), ALL, current=True)
    assert len(lists) == 2
    lists.release("shared")  # a later client of hers was shown the same
    (held,) = lists.lists_for(Owner(ann, session_id="later"), ALL)
    assert (held.owner.session_id, len(lists)) == ("later", 2)
    lists.release("own")
    assert len(lists) == 1
    lists.release("later")
    (held,) = lists.lists_for(Owner(ann, session_id="shared"), ALL)
    assert (held.owner.session_id, held.lists is not None, len(lists)) == (None, True, 1)
    await bench.gateway.close()
