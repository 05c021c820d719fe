"""Tools by what they are called: what is found, and what the tables of many tools hold."""

from __future__ import annotations

import gc
import tracemalloc

from armory.domain.catalog import Catalog
from armory.domain.tool import ToolRecord
from armory.gateway.views.names import ToolNames


def catalog_of(count: int) -> Catalog:
    tools = {
        f"post__tool{n}": ToolRecord(f"post__tool{n}", "post", f"tool{n}", {"name": f"tool{n}"}, "")
        for n in range(count)
    }
    return Catalog(1, {}, tools, {}, {}, {})


def test_names_are_found_by_what_they_are_called_and_by_what_comes_near() -> None:
    names = ToolNames(catalog_of(30))
    assert list(names.called("tool7")) == ["post__tool7"]
    assert list(names.called("post tool7")) == ["post__tool7"]
    assert len(names.called("the post server")) == 30
    assert names.called("") == {}
    assert names.nearest("tool7_post", catalog_of(30).tools.keys())[0] == "post__tool7"


def test_a_name_is_found_however_it_is_spelt() -> None:
    tools = {
        f"{server}__{tool}": ToolRecord(
            f"{server}__{tool}", server, tool, {"name": tool}, "", server_title=title
        )
        for server, tool, title in [
            ("github", "create_issue", ""),
            ("yt", "getVideo", "YouTube MCP Server"),
            ("brave-search", "search", ""),
        ]
    }
    names = ToolNames(Catalog(1, {}, tools, {}, {}, {}))
    for text in ("github", "GitHub", "the GitHub server", "GITHUB"):
        assert list(names.called(text)) == ["github__create_issue"], text
    for text in ("YouTube", "youtube", "the YouTube server", "getVideo", "get_video"):
        assert list(names.called(text)) == ["yt__getVideo"], text
    for text in ("BraveSearch", "Brave search"):
        assert list(names.called(text)) == ["brave-search__search"], text
    assert list(names.called("createIssue")) == ["github__create_issue"]


def test_what_names_of_products_end_in_may_be_said_or_left_off() -> None:
    tools = {
        f"{server}__{tool}": ToolRecord(f"{server}__{tool}", server, tool, {"name": tool}, "")
        for server, tool in [
            ("postgres", "run"), ("redis", "get"), ("mongo", "find"), ("kubernetes", "pods"),
            ("react", "lint"), ("notion", "page"), ("time", "now"), ("mariadb", "ask"),
        ]
    }  # fmt: skip
    names = ToolNames(Catalog(1, {}, tools, {}, {}, {}))
    for text in ("PostgreSQL", "postgresql", "the PostgreSQL server"):
        assert list(names.called(text)) == ["postgres__run"], text
    assert list(names.called("MongoDB")) == ["mongo__find"]
    assert list(names.called("notionhq")) == ["notion__page"]
    assert list(names.called("maria")) == ["mariadb__ask"]
    for text in (
        "redistribute", "mongolia", "reactions", "notional",  # English
        "post", "postg", "timescale", "timeapp", "kube",  # no ending, or too short
        "postgresql tables", "PostgreSQL 17",
    ):  # fmt: skip
        assert names.called(text) == {}, text
    assert list(names.called("run")) == ["postgres__run"]


def test_the_names_of_many_tools_hold_little() -> None:
    count = 5_000
    catalog = catalog_of(count)
    known = ToolNames(catalog)  # tables of the whole process grow here, not below
    gc.collect()
    tracemalloc.start()
    try:
        names = ToolNames(catalog)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert names.called("tool1") == known.called("tool1") != {}
    assert held < 850 * count, f"{held / count:.0f} bytes a tool"
