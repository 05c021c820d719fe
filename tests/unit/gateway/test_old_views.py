"""A list that came and went: nothing of the old view stays, but what the new one has likewise."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.query import VisibleSet
from armory.domain.tool import ToolRecord
from armory.domain.visibility import VisibleCatalog
from armory.gateway.metatools.definitions import servers_shown
from armory.gateway.settings import GatewaySettings
from armory.gateway.views import listed
from armory.gateway.views.definitions import Form, tool_bytes
from armory.gateway.views.listed import ESTIMATED_ABOVE
from armory.security.policy import Policy, Rule
from armory.testing.front import tool

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
MODERN = Form("modern")


def _lists(count: int, first: str = "number 0") -> ServerLists:
    told = [first, *(f"number {i}" for i in range(1, count))]
    return ServerLists(tools=[tool(f"tool{i}", text) for i, text in enumerate(told)])


@pytest.mark.parametrize("prepared", [False, True])
async def test_the_view_before_is_let_go(bench: Bench, prepared: bool) -> None:
    gateway = bench.gateway
    many, few = _lists(500), _lists(3, "another")
    for lists in ({"up": many, "gone": many}, {"up": few}):
        old = weakref.ref(gateway.view)
        catalog, _ = build_catalog(lists, previous=gateway.view.catalog)
        if prepared:
            gateway.prepare(catalog)
        gateway.publish(catalog)
        await bench.tools(bench.context())
        gateway.view.listed.all_tools(gateway.view.visible(bench.context()), MODERN)
        gc.collect()
        assert old() is None
    del catalog, lists
    kept = [o for o in gc.get_objects() if type(o) is ToolRecord and o.server == "gone"]
    assert kept == []


async def test_views_of_single_principals_hold_it_no_longer(bench: Bench) -> None:
    gateway = bench.gateway
    gateway.reconfigure(settings=GatewaySettings(personal={"up": "always"}))
    request = bench.context()
    await gateway.context(request, own_lists="current")
    old = weakref.ref(gateway.view)
    catalog, _ = build_catalog({"up": _lists(3)}, previous=gateway.view.catalog)
    gateway.publish(catalog)
    del request
    gc.collect()
    assert old() is None
    await gateway.close()


@pytest.mark.parametrize(
    ("count", "estimated"), [(2_000, False), (20_000, False), (500, True), (2_000, True)]
)
async def test_the_size_of_a_large_list_is_told_without_making_its_bytes(
    bench: Bench, count: int, estimated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = bench.gateway
    made: list[str] = []

    def noted(record: ToolRecord, form: Form) -> bytes:
        made.append(record.name)
        return tool_bytes(record, form)

    monkeypatch.setattr(listed, "tool_bytes", noted)
    catalog, _ = build_catalog({"up": _lists(count)}, previous=gateway.view.catalog)
    gateway.publish(catalog)
    view = gateway.view
    visible = view.visible(bench.context())
    size = view.listed.size_of(visible, MODERN, estimated=estimated)
    whole = count <= (500 if estimated else ESTIMATED_ABOVE)
    assert len(made) == (count if whole else 500)
    exact = len(view.listed.all_tools(visible, MODERN))
    assert abs(size - exact) <= (0 if whole else exact / 50)


class Asked(frozenset[str]):
    """Names that count how often one of them is asked for."""

    times = 0

    def __contains__(self, name: object) -> bool:
        self.times += 1
        return super().__contains__(name)


async def test_what_a_server_is_for_is_told_by_its_first_tools_alone(bench: Bench) -> None:
    catalog, _ = build_catalog({"up": _lists(10_000), "other": _lists(10_000)})
    bench.gateway.publish(catalog)
    view = bench.gateway.view
    names = Asked(catalog.tools)
    visible = VisibleCatalog(VisibleSet(names))
    shown = servers_shown(catalog, visible, view.tables.by_server)
    assert [tool["name"] for tool in shown["other"].tools] == [f"tool{i}" for i in range(5)]
    assert names.times == 10


async def test_bytes_of_unchanged_tools_are_taken_over(bench: Bench) -> None:
    gateway = bench.gateway
    before = gateway.view
    made = {name: before.listed.tool(name, MODERN) for name in before.catalog.tools}
    changed = replace(_lists(3, "another"), info=before.catalog.servers["up"].info)
    catalog, _ = build_catalog({"up": changed}, previous=before.catalog)
    gateway.publish(catalog)
    view = gateway.view
    assert view.listed.tool("up__tool1", MODERN) is made["up__tool1"]
    assert view.listed.tool("up__tool0", MODERN) == tool_bytes(catalog.tools["up__tool0"], MODERN)
    assert b"another" in view.listed.tool("up__tool0", MODERN)


async def test_other_rules_and_settings_make_no_table_of_tools_again(bench: Bench) -> None:
    gateway = bench.gateway
    before = gateway.view
    names, made = before.names, before.listed.tool("up__tool0", MODERN)
    everything = before.listed.all_tools(before.visible(bench.context()), MODERN)
    gateway.reconfigure(policy=Policy([Rule(allow=("up__tool0",))]), settings=GatewaySettings())
    view = gateway.view
    assert (view.tables, view.names) == (before.tables, names)
    assert view.listed.tool("up__tool0", MODERN) is made
    assert view.listed.all_tools(view.visible(bench.context()), MODERN) == made != everything
    catalog = replace(before.catalog, version=before.catalog.version + 1)  # as after a reload
    gateway.prepare(catalog)
    gateway.publish(catalog)
    assert (gateway.view.tables, gateway.view.names) == (before.tables, names)
    assert gateway.view.listed.tool("up__tool0", MODERN) is made
