"""What the discovery document names of servers and sets, to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from armory.domain.principal import Principal
from armory.gateway.settings import SetSpec
from armory.security.policy import Policy, Rule
from tests.unit.gateway.conftest import Bench

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
