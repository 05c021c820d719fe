"""What the discovery document names of servers and sets, to whom."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import msgspec
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.naming import expose_names
from armory.domain.principal import Principal
from armory.gateway.settings import SetSpec
from armory.protocol.capabilities import SKILLS_EXTENSION
from armory.protocol.errors import RpcError
from armory.security.packs import PackView
from armory.security.policy import Policy, Rule
from tests.unit.gateway.conftest import Bench, read

pytestmark = pytest.mark.anyio


async def test_discovery_shows_what_the_caller_may_see(bench: Bench) -> None:
    rules = [Rule(who=("a",), allow=("*",)), Rule(who=("c",), allow=("up+*",))]
    sets = {"all": SetSpec(("up",)), "some": SetSpec(tools=("*tool1",)), "none": SetSpec(("away",))}
    settings = replace(bench.gateway.view.settings, sets=sets)
    bench.gateway.reconfigure(policy=Policy(rules), settings=settings)
    describe = bench.gateway.description.discovery
    found = describe(bench.gateway.view, Principal("a"))
    assert found["servers"] == {"up": "/mcp/up"}
    assert found["sets"] == {"all": "/mcp/set/all", "some": "/mcp/set/some"}
    resources = describe(bench.gateway.view, Principal("c"))  # sees no tool
    assert [*resources["servers"], *resources["sets"]] == ["up", "all"]
    nothing = describe(bench.gateway.view, Principal("b"))
    assert [nothing["servers"], nothing["sets"]] == [{}, {}]
    assert "servers" not in describe(bench.gateway.view, None)


async def test_discovery_names_upstreams_that_were_never_up(bench: Bench) -> None:
    bench.pool.down.append("asleep")
    bench.gateway.reconfigure(
        policy=Policy([Rule(("a",), allow=("*",)), Rule(("b",), allow=("up__*",))])
    )
    for who, shown in (("a", ["up", "asleep"]), ("b", ["up"])):
        assert [*bench.gateway.discovery(Principal(who))["servers"]] == shown
    assert "servers" not in bench.gateway.discovery(None)


async def test_capabilities_name_nothing_of_servers_that_a_caller_does_not_see(
    bench: Bench,
) -> None:
    up = bench.pool.upstreams["up"]
    secret = {
        "tools": {},
        "prompts": {},
        "completions": {},
        "extensions": {"vault/keys": {"hidden": 1}, SKILLS_EXTENSION: {}},
    }
    bench.pool.upstreams["up"] = replace(
        up, lists=replace(up.lists, prompts=[], capabilities={"tools": {}, "logging": {}})
    )
    for name, tools in (("vault", up.lists.tools), ("empty", [])):
        lists = ServerLists(tools=tools, capabilities=secret if tools else {"prompts": {}})
        bench.pool.upstreams[name] = replace(up, lists=lists)
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))

    def told(who: str) -> set[str]:
        said = bench.gateway.description.of_endpoint(bench.context(principal=Principal(who)))
        named = said["capabilities"]
        return named.keys() | named["extensions"].keys()

    everything = told("a")
    assert {"vault/keys", SKILLS_EXTENSION, "completions", "prompts", "logging"} <= everything
    for rule, new in (
        (Rule(allow=("up__*", "up+*")), set[str]()),
        (Rule(allow=("*",), deny=("vault__*", "empty__*")), set[str]()),
        (Rule(allow=("up__*", "em*")), {"prompts"}),  # it may have some yet
        (Rule(allow=("up__*", "empty__one")), {"prompts"}),
    ):
        bench.gateway.reconfigure(policy=Policy([rule]))
        hidden = {"vault/keys", SKILLS_EXTENSION, "completions", "prompts"}
        assert told("a") & hidden == new, rule
        assert "logging" in told("a")


@pytest.mark.parametrize(
    ("allow", "deny", "concerned"),
    [
        (("docs__*",), (), True),
        (("d*",), (), True),
        (("docs__read_*",), (), True),
        (("docs+file:///a",), (), True),
        (("ui://docs/*",), (), True),
        (("other__*",), (), False),
        (("*",), ("docs__*",), False),
        (("*",), ("docs__read_*",), True),
        ((), (), False),
    ],
)
def test_which_servers_rules_can_concern(
    allow: tuple[str, ...], deny: tuple[str, ...], concerned: bool
) -> None:
    policy = Policy([Rule(allow=allow, deny=deny)])
    assert policy.concerns(Principal("a"), "docs") is concerned


def test_names_of_a_server_with_a_long_key_are_its_own_though_they_are_cut() -> None:
    server = "long" * 12
    name = expose_names(server, ["read"])["read"]
    assert Policy([Rule(allow=(name,))]).concerns(Principal("a"), server)
    assert PackView("one", tools=frozenset((name,))).has_any_of(server)


async def test_who_may_see_a_part_of_a_server_waits_for_it(bench: Bench) -> None:
    bench.pool.upstreams["later"] = bench.pool.upstreams["up"]  # nothing is known of it yet
    ann, awaits = Principal("ann"), bench.gateway.awaits
    for allow, waits in (("later__read_*", True), ("later+file:///a", True), ("up*", False)):
        bench.gateway.reconfigure(policy=Policy([Rule(allow=(allow,))]))
        assert awaits("later", ann) is waits
        assert not awaits("up", ann)


@pytest.mark.parametrize("limit", [5, 64])
@pytest.mark.parametrize(
    "asked",
    [{}, {"mode": "all"}, {"mode": "raw"}, {"mode": "search"}, {"mode": "none"}, {"query": "one"},
     {"servers": "up"}],
    ids=str,
)  # fmt: skip
async def test_who_lists_everything_is_not_told_to_search(
    bench: Bench, asked: dict[str, str], limit: int
) -> None:
    """Its list names no tool to search with, so neither do the instructions."""
    settings = replace(bench.gateway.view.settings, full_list_limit=limit)
    bench.gateway.reconfigure(settings=settings)
    headers = {f"X-Armory-{name.title()}": value for name, value in asked.items()}
    url = {name: [value] for name, value in asked.items()}
    for context in (bench.context(url=url), bench.context(headers=headers)):
        told = bench.gateway.description.of_endpoint(context)["instructions"]
        assert "up: " in told
        try:
            listed = await bench.tools(context)
        except RpcError:
            listed = []
        assert ("search_tools" in told) is ("search_tools" in listed)


async def test_no_text_names_a_meta_tool_that_there_is_not(bench: Bench) -> None:
    for search, call, find in product((True, False), repeat=3):
        offered = {"search_tools": search, "call_tool": call, "find_tools": find}
        bench.gateway.reconfigure(settings=replace(bench.gateway.view.settings, **offered))
        searching = bench.context(url={"mode": ["search"]})
        told = [
            bench.gateway.description.instructions(searching),
            msgspec.json.encode(
                read(await bench.gateway.tool_lists.list(searching, {}))["tools"]
            ).decode(),
        ]
        for name, there in offered.items():
            assert there or all(name not in text for text in told), (name, told)
        assert not search or "Use search_tools" in told[0]
        assert search or not find or "Use find_tools" in told[0]
