"""The fixture server, gateways in front of it, and the conformance suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.testing.processes import GatewayProcess, Program

HERE = Path(__file__).parent
PACKAGE = "@modelcontextprotocol/conformance"
TIMEOUT_S = 240


@dataclass
class Outcome:
    """One run of the suite: failing check ids by scenario; scenarios without any are passed."""

    failing: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    warned: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    passed: int = 0
    messages: list[str] = field(default_factory=list[str])


@pytest.fixture(scope="session")
def node_folder() -> Path:
    """Where the npm packages are: `ARMORY_TEST_NODE_DIR`."""
    given = os.environ.get("ARMORY_TEST_NODE_DIR", "")
    folder = Path(given) / "node_modules"
    if not given or not (folder / PACKAGE).is_dir():
        pytest.skip(f"set ARMORY_TEST_NODE_DIR to a folder with {PACKAGE} and node (npm i node@22)")
    return folder


@pytest.fixture(scope="session")
def node(node_folder: Path) -> str:
    """A Node.js of version 22 or newer."""
    own = node_folder / "node" / "bin" / "node"
    return str(own) if own.exists() else "node"


@pytest.fixture(scope="session")
def fixture_url() -> Iterator[str]:
    """The fixture server, reached directly."""
    with Program([sys.executable, str(HERE / "fixture_server.py")]) as server:
        yield server.line()


@pytest.fixture(scope="session")
def one_way_url() -> Iterator[str]:
    """The fixture server whose tools ask in one era's way each, reached directly."""
    with Program([sys.executable, str(HERE / "fixture_server.py"), "--one-way"]) as server:
        yield server.line()


@pytest.fixture(scope="session")
def gateway(
    fixture_url: str, one_way_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Armory in front of them: pinned to each era, and left to choose."""
    config = {
        "upstreams": {
            "modern": {"url": fixture_url, "protocol": "2026-07-28"},
            "legacy": {"url": fixture_url, "protocol": "2025-11-25"},
            "auto": {"url": one_way_url},
        },
        "tool_rag": {"enabled": False},
    }
    with GatewayProcess(config, tmp_path_factory.mktemp("conformance")) as running:
        assert isinstance(running, GatewayProcess)
        yield running


@pytest.fixture(scope="session")
def requirements(node_folder: Path) -> Callable[[str], dict[str, Any]]:
    """The suite's frozen requirement set of a revision."""

    def read(revision: str) -> dict[str, Any]:
        path = node_folder / PACKAGE / "requirements" / f"{revision}.yaml"
        return yaml.safe_load(path.read_text(encoding="utf-8"))

    return read


def _collect(folder: Path, prefix: str) -> Outcome:
    outcome = Outcome()
    for path in sorted(folder.rglob("checks.json")):
        # `server-tools-list-2026-11-20T15-05-52-446Z`: the timestamp has six dashes.
        scenario = path.parent.name.rsplit("-", 6)[0].removeprefix(prefix)
        for check in json.loads(path.read_text(encoding="utf-8")):
            if check["status"] == "SUCCESS":
                outcome.passed += 1
            elif check["status"] in ("FAILURE", "WARNING"):
                where = outcome.failing if check["status"] == "FAILURE" else outcome.warned
                where.setdefault(scenario, []).append(check["id"])
                said = str(check.get("errorMessage"))[:500]
                outcome.messages.append(f"{check['status']} {scenario}:{check['id']}: {said}")
    return outcome


@pytest.fixture(scope="session")
def run_server_suite(
    node: str, node_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Outcome]:
    """Run a requirement set against a URL; runs are kept for the session."""
    kept: dict[tuple[str, str], Outcome] = {}

    def run(url: str, revision: str) -> Outcome:
        if (url, revision) not in kept:
            folder = tmp_path_factory.mktemp("results")
            program = node_folder / PACKAGE / "dist" / "index.js"
            command = [node, str(program), "server", "--url", url, "--requirements", revision]
            done = subprocess.run(
                [*command, "-o", str(folder)],
                capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
            kept[url, revision] = _collect(folder, "server-")
            assert kept[url, revision].passed, done.stdout[-3_000:] + done.stderr[-3_000:]
        return kept[url, revision]

    return run


@pytest.fixture(scope="session")
def run_client_scenario(
    node: str, node_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Outcome]:
    """Run one client scenario: the suite's server behind a gateway, a client in front."""

    def run(scenario: str, revision: str) -> Outcome:
        folder = tmp_path_factory.mktemp("client")
        program = node_folder / PACKAGE / "dist" / "index.js"
        leg = f"{sys.executable} {HERE / 'client_leg.py'}"
        done = subprocess.run(
            [node, str(program), "client", "--command", leg, "--scenario", scenario,
             "--spec-version", revision, "--force", "--timeout", "60000", "-o", str(folder)],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        outcome = _collect(folder, "")
        assert outcome.passed, done.stdout[-3_000:] + done.stderr[-3_000:]
        return outcome

    return run
