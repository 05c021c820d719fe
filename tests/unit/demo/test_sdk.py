"""The note server with the MCP SDK that is installed, and with the major before it."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]


def test_an_environment_keeps_the_sdk_that_its_other_packages_want() -> None:
    """LangChain's adapters, CrewAI and mcp-use want the first major, and break with the second."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    (sdk,) = [requirement for requirement in wanted if requirement.name == "mcp"]
    assert all(version in sdk.specifier for version in ("1.24.0", "1.30.0", "2.3.0"))


class Before(ModuleType):
    """`mcp.server.fastmcp` of the first major, as far as the demo uses it."""

    class FastMCP:
        def __init__(self, name: str, instructions: str, log_level: str) -> None:
            self.given = (name, instructions, log_level)

    class ToolError(Exception):
        pass


def test_with_the_first_major_it_is_made_of_what_that_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for gone in ("mcp.server.mcpserver", "mcp.server.mcpserver.exceptions", "armory.demo.sdk"):
        monkeypatch.setitem(sys.modules, gone, None)
    monkeypatch.delitem(sys.modules, "armory.demo.sdk")
    for name in ("mcp.server.fastmcp", "mcp.server.fastmcp.exceptions"):
        monkeypatch.setitem(sys.modules, name, Before(name))
    sdk: Any = importlib.import_module("armory.demo.sdk")
    made = sdk.notes_server("notes", "Notes", "1.0", "Keeps notes.")
    assert made.given == ("notes", "Keeps notes.", "WARNING")
    assert sdk.ToolError is Before.ToolError
