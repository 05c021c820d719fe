"""What groups are called, and what is told of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from armory.gateway.lists.grouping import (
    FROM_PREFIX,
    MAX_NAME,
    PACK_PREFIX,
    SET_PREFIX,
    group_name,
    groups_of,
    own_name,
)
from armory.gateway.settings import GROUPS, SetSpec
from armory.protocol.capabilities import GROUPS_EXTENSION

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
KEYS = [
    "github", "GitHub", "git_hub", "git-hub", "git--hub", "-git", "git-", "日本", "éa", "a" * 64,
    "a" * 65, "a" * 200, "set-x", "set-", "set", "x", "set_x", "a" * 61, "a" * 60, "group",
    "pack-x", "from-x", "from-set-x", "set-from-pack-x", "from-git-hub",
]  # fmt: skip


def test_no_two_keys_share_a_name_and_each_is_one() -> None:
    prefixes = ("", SET_PREFIX, PACK_PREFIX, FROM_PREFIX)
    names = [group_name(key, prefix) for prefix in prefixes for key in KEYS]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name), name
        assert len(name) <= MAX_NAME


def test_no_two_groups_of_upstreams_share_a_name() -> None:
    servers = ("a", "a-b", "a-b-c", "git", "from-a", "a" * 64)
    groups = ("b", "b-c", "c", "Hub", "hub", "hub!", "b/c", "a" * 200, "日本", " ")
    names = [own_name(server, group) for server in servers for group in groups]
    names += [group_name(key) for key in KEYS]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name), name
        assert len(name) <= MAX_NAME
    assert own_name("git", "hub") == "from-git-hub"


def test_a_key_that_is_a_name_stays() -> None:
    assert group_name("github") == "github"
    assert group_name("github", SET_PREFIX) == "set-github"
    assert group_name("My Server").startswith("my-server-")


async def test_a_group_says_what_it_is_for(bench: Bench) -> None:
    sets = {"sums": SetSpec(servers=("up",), query=("add", "count")), "none": SetSpec(tools=("x",))}
    settings = replace(bench.gateway.view.settings, experimental=frozenset({GROUPS}), sets=sets)
    bench.gateway.reconfigure(settings=settings)
    bench.client.capabilities = {"extensions": {GROUPS_EXTENSION: {}}}
    server, of_set = [group.listed() for group in groups_of(bench.context())]
    assert server == {"name": "up", "title": "up", "description": "Counts"}
    expected = "For: add; count. Tools of up."
    assert of_set == {"name": "set-sums", "title": "sums", "description": expected}


async def test_what_is_pinned_makes_no_group(bench: Bench) -> None:
    settings = replace(bench.gateway.view.settings, experimental=frozenset({GROUPS}), pin=("*",))
    bench.gateway.reconfigure(settings=settings)
    bench.client.capabilities = {"extensions": {GROUPS_EXTENSION: {}}}
    assert list(groups_of(bench.context())) == []
    assert len(await bench.tools(bench.context())) == 8
