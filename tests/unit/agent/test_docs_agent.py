"""The snippet of docs/agent.md: the agent in a program of one's own."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

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
