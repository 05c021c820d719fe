"""docs/agent.md: its snippet, the agent in a program of one's own, and the limits that it names."""

from __future__ import annotations

import re
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from armory.agent.runs import MAX_RUNS, MAX_RUNS_OF_CALLER, Runs
from armory.agent.settings import AgentLimits
from armory.errors import RateLimited
from armory.testing.chat import ScriptedChat

PAGE = (Path(__file__).parents[3] / "docs" / "agent.md").read_text(encoding="utf-8")
TURNS = (
    'Thought: search.\nAction: vector_search\nAction Input: {"query": "weather forecast"}',
    "Thought: done.\nFinal Answer: get_weather says it.",
)


def get_weather(city: str) -> str:
    """Weather forecast for a city."""
    return city


def send_email(to: str) -> None:
    """Send an email message to a person."""


@pytest.mark.anyio
async def test_the_agent_finds_functions() -> None:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    code = f"async def main():\n{textwrap.indent(found[1], '    ')}\n    return names\n"
    async with ScriptedChat(TURNS) as server:
        names: dict[str, Any] = {
            "BASE_URL": server.url, "MODEL": "small",
            "get_weather": get_weather, "send_email": send_email,
        }  # fmt: skip
        exec(code, names)
        assert (await names["main"]())[0] == "get_weather"


def test_the_limits_of_a_run_are_those_that_are_documented() -> None:
    limits = AgentLimits()
    assert f"(1 to 5, default {limits.max_iterations})" in PAGE
    assert f"A run also ends after {limits.time_s:g} s\nor {limits.tokens:,} tokens." in PAGE
    assert f"Both take `query` and `top_k` ({limits.top_k} unless given, 50 at most)." in PAGE


def test_a_gateway_has_as_many_runs_as_are_documented() -> None:
    assert f"A gateway has {MAX_RUNS} runs at a time, {MAX_RUNS_OF_CALLER} of one caller;" in PAGE
    runs = Runs()
    with ExitStack() as held:
        for number in range(MAX_RUNS):
            held.enter_context(runs.run(f"user {number}"))
        with pytest.raises(RateLimited, match=f"{MAX_RUNS} of the gateway's runs"):
            held.enter_context(runs.run("one more"))
    with runs.run("one more"):
        pass
