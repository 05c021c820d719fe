"""A view that is made after another one has what one by itself has."""

from __future__ import annotations

import random
from typing import Any

from armory.domain.catalog import EMPTY, Catalog, ServerLists
from armory.domain.catalog_builder import CatalogBuilder, build_catalog
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.definitions import Form
from armory.gateway.views.view import View
from armory.security.policy import Policy

WORDS = ("read", "write", "list files", "send-mail", "getWeather")
FORM = Form("modern")


def edited(tools: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    """The list as its server gives it the next time: every object is another one."""
    found = [dict(tool) for tool in tools]
    place = chance.randrange(len(found))
    match chance.randrange(6):
        case 0:
            found[place]["title"] = chance.choice(WORDS)
        case 1:
            found[place]["description"] = f"{chance.random()}"
        case 2:
            found[place]["_meta"] = {"ui": {"visibility": [chance.choice(("app", "model"))]}}
        case 3:
            found.insert(place, {"name": f"{chance.choice(WORDS)} {chance.random()}"})
        case 4 if len(found) > 1:
            del found[place]
        case _:
            chance.shuffle(found)
    return found


def assert_same(view: View, catalog: Catalog) -> None:
    anew = View(catalog, Policy(), GatewaySettings())
    assert list(view.tables.positions.items()) == list(anew.tables.positions.items())
    assert view.tables.originals == anew.tables.originals
    assert view.tables.apps == anew.tables.apps
    assert view.tables.by_server == anew.tables.by_server
    everything = frozenset(catalog.tools)
    for text in (*WORDS, "server0", "Server number 1", "weather"):
        assert list(view.names.called(text).items()) == list(anew.names.called(text).items())
        assert view.names.nearest(text, everything) == anew.names.nearest(text, everything)
    for name in catalog.tools:
        assert view.listed.tool(name, FORM) == anew.listed.tool(name, FORM)


def test_a_view_after_another_is_the_one_by_itself() -> None:
    chance = random.Random(3)
    given: dict[str, list[dict[str, Any]]] = {
        f"server{i}": [{"name": word, "inputSchema": {"type": "object"}} for word in WORDS]
        for i in range(4)
    }
    lists = {server: ServerLists(tools=tools) for server, tools in given.items()}
    builder, catalog = CatalogBuilder(), EMPTY
    view = View(catalog, Policy(), GatewaySettings())
    for turn in range(60):
        catalog, _ = builder.build(lists, None, catalog)
        assert list(catalog.tools.items()) == list(build_catalog(lists)[0].tools.items())
        view = View(catalog, view.policy, view.settings, view)
        if turn % 3:  # else its names are not asked before it is replaced
            assert_same(view, catalog)
        server = f"server{chance.randrange(4)}"
        given[server] = edited(given[server], chance)
        info = {"title": f"Server number {chance.randrange(3)}"} if turn > 40 else {}
        lists = {**lists, server: ServerLists(tools=given[server], info=info)}
