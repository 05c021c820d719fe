"""What users have active: it narrows what they see and call, and nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.catalog import Catalog, ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import Principal
from armory.domain.visibility import Scope
from armory.gateway.requests import ClientRequest
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.view import View
from armory.protocol.link import Answer, Params
from armory.security.packs import NamedPack, PackView
from armory.security.policy import Policy

ALICE = Principal("alice", user="ann")


class Unasked:
    """A client that is told nothing."""

    capabilities: Mapping[str, Any] = {}
    log_level: str | None = None
    progress_token: Raw | None = None

    async def notify(self, method: str, params: Params) -> None:
        raise AssertionError(method)

    async def ask(self, method: str, params: Params) -> Answer:
        raise AssertionError(method)


def catalog() -> Catalog:
    git = ServerLists(
        tools=[{"name": "get"}, {"name": "put"}],
        prompts=[{"name": "hi"}],
        resources=[{"uri": "file:///a"}],
        templates=[{"uriTemplate": "file:///{x}"}],
    )
    return build_catalog({"git": git, "time": ServerLists(tools=[{"name": "now"}])})[0]


class Active:
    """What ann has active; nobody else has anything."""

    def __init__(self, servers: Iterable[str], tools: Iterable[str]) -> None:
        self.packs = [NamedPack("own", "Own", "", frozenset(servers), frozenset(tools))]

    def view_of(self, user: str) -> PackView:
        (own,) = self.packs
        return PackView("own", own.servers, own.tools) if user == "ann" else PackView("none")

    def packs_of(self, user: str) -> Sequence[NamedPack]:
        return self.packs if user == "ann" else ()


def test_packs_narrow_what_a_user_sees_and_calls() -> None:
    policy = Policy(packs=Active(["time"], ["git__get", "git__gone", "away__x"]))
    listed, stranger, service = catalog(), Principal("b", user="bob"), Principal("service")
    visible = policy.visible_catalog(listed, ALICE)
    assert visible.tools.names == {"git__get", "time__now"}
    assert not visible.prompts | visible.resources | visible.templates
    scope = Scope("set:git", frozenset(("git",)))
    assert policy.visible_catalog(listed, ALICE, scope).tools.names == {"git__get"}
    assert not policy.visible_catalog(listed, stranger).anything
    for everything in (
        policy.visible_catalog(listed, ALICE, packs=False), policy.visible_catalog(listed, service)
    ):  # fmt: skip
        assert everything.tools.names == set(listed.tools)
        assert everything.resources
    whole = [policy.visible_tools(listed, who) for who in (ALICE, stranger, service)]
    assert len({tools.key for tools in whole}) == 3, "each is known by its key outside"
    assert policy.restricts
    assert policy.profile(ALICE) != policy.profile(stranger) != policy.profile(service)
    assert policy.profile(ALICE, packs=False) == policy.profile(service)
    assert [len(policy.packs_of(who)) for who in (ALICE, stranger, service)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("git__get", True),
        ("git__put", False),
        ("time__now", True),
        ("time__not_yet_there", True),
        ("time+file:///a", True),
        ("ui://time/a", True),
        ("skill://time/a", True),
        ("git+file:///a", False),
        ("time", False),
        ("timer__now", False),
    ],
)
def test_what_packs_leave_is_told_by_the_name(name: str, allowed: bool) -> None:
    policy = Policy(packs=Active(["time"], ["git__get"]))
    assert policy.allows(ALICE, name) is allowed
    assert policy.allows(ALICE, name, packs=False)
    assert not policy.allows(Principal("b", user="bob"), name)


def test_what_a_pack_lists_can_be_called_however_long_its_servers_key_is() -> None:
    key = "modelcontextprotocol-server-sequential-thinking"
    lists = ServerLists(tools=[{"name": "sequentialthinking"}], prompts=[{"name": "hi"}])
    view = View(build_catalog({key: lists})[0], Policy(packs=Active([key], [])), GatewaySettings())
    request = ClientRequest(ALICE, Unasked(), "modern", "")
    visible = view.visible(request)
    for names, find in ((visible.tools.names, view.tool), (visible.prompts, view.prompt)):
        (name,) = names
        assert find(request, name)
    other = ClientRequest(Principal("b", user="bob"), Unasked(), "modern", "")
    assert not view.tool(other, next(iter(visible.tools.names)))


@pytest.mark.parametrize(
    ("server", "some"), [("time", True), ("git", True), ("gi", False), ("github", False)]
)
def test_of_which_servers_packs_leave_anything(server: str, some: bool) -> None:
    policy = Policy(packs=Active(["time"], ["else__where", "git__get"]))
    for asked in (policy.may_allow, policy.concerns):
        assert asked(ALICE, server) is some
        assert asked(ALICE, server, packs=False)
    assert NamedPack("a", "A", "", frozenset(("time",))).has_tool("time", "time__now")
    assert not NamedPack("a", "A", "", frozenset(("time",))).has_tool("git", "git__get")
    assert NamedPack("a", "A", "", tools=frozenset(("git__get",))).has_tool("git", "git__get")
