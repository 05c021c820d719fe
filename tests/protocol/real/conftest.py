"""Real servers of every revision behind one gateway, and the clients that talk to it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armory.testing.processes import GatewayProcess

HOW = "; run tests/protocol/real/prepare.py"


@pytest.fixture(scope="session")
def node_dir() -> Path:
    """The folder that holds `node_modules`."""
    given = os.environ.get("ARMORY_TEST_NODE_DIR", "")
    if not given or not (Path(given) / "node_modules" / "node").is_dir():
        pytest.skip("set ARMORY_TEST_NODE_DIR" + HOW)
    return Path(given)


@pytest.fixture(scope="session")
def node(node_dir: Path) -> str:
    """A Node.js of version 22 or newer."""
    return str(node_dir / "node_modules" / "node" / "bin" / "node")


@pytest.fixture(scope="session")
def venvs() -> Path:
    """The folder that holds the virtual environments with old SDKs."""
    given = os.environ.get("ARMORY_TEST_VENVS", "")
    if not given or not (Path(given) / "mcp-1.6.0").is_dir():
        pytest.skip("set ARMORY_TEST_VENVS" + HOW)
    return Path(given)


def npm_server(node: str, node_dir: Path, name: str, *args: str) -> dict[str, Any]:
    script = node_dir / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return {"command": node, "args": [str(script), *args]}


@pytest.fixture(scope="session")
def gateway(
    node: str, node_dir: Path, venvs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Servers of six revisions behind one gateway."""
    folder = tmp_path_factory.mktemp("real")
    beside = Path(sys.executable).parent
    time_now = shutil.which("mcp-server-time", path=str(beside))
    git_now = shutil.which("mcp-server-git", path=str(beside))
    if time_now is None or git_now is None:
        pytest.skip("pip install mcp-server-time mcp-server-git")
    database = str(folder / "data.db")
    upstreams: dict[str, Any] = {
        "sqlite": {
            "command": str(venvs / "mcp-1.6.0" / "bin" / "mcp-server-sqlite"),
            "args": ["--db-path", database],
        },
        "time-march": {"command": str(venvs / "mcp-1.9.4" / "bin" / "mcp-server-time")},
        "time-june": {"command": str(venvs / "mcp-1.14.1" / "bin" / "mcp-server-time")},
        "everything": npm_server(node, node_dir, "server-everything", "stdio"),
        "files": npm_server(node, node_dir, "server-filesystem", str(folder)),
        "memory": {
            **npm_server(node, node_dir, "server-memory"),
            "env": {"MEMORY_FILE_PATH": f"{folder}/memory-${{principal}}.json"},
        },
        "time-now": {"command": time_now},
        "git": {"command": git_now},
    }
    config = {
        "upstreams": {key: {**up, "connect_timeout_s": 40} for key, up in upstreams.items()},
        "tool_rag": {"enabled": False},
        "security": {
            "tokens": {
                "ada": {"token": "token-of-ada", "user": "ada"},
                "bob": {"token": "token-of-bob", "user": "bob"},
            },
            "allow_anonymous": True,
        },
    }
    with GatewayProcess(config, folder) as running:
        assert isinstance(running, GatewayProcess)
        yield running
