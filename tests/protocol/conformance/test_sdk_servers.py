"""The official SDKs' own conformance servers behind the gateway: no scored scenario is lost.

Where the era is left to the gateway, whatever passes directly passes. What a pin costs is named in
`expected-failures-sdks.yml`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from armory.testing.processes import GatewayProcess
from tests.protocol.conformance.built import built

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]
MODERN, LEGACY = REVISIONS = ["2026-07-28", "2025-11-25"]
START_S = 60
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "expected-failures-sdks.yml").read_text(encoding="utf-8")
)
CELLS = [
    ("python", "python-auto"),
    ("python", "python-modern"),
    ("python", "python-legacy"),
    ("go", "go-auto"),
    ("go", "go-legacy"),
    ("go-sessions", "go-sessions-auto"),
    ("go-sessions", "go-stdio"),
]
"""A server as it is reached directly, and an upstream of the gateway that is the same server."""


class Outcome(Protocol):
    """One run of the suite; see conftest."""

    failing: dict[str, list[str]]
    passed: int
    messages: list[str]


Run = Callable[[str, str], Outcome]


@pytest.fixture(scope="module")
def sdks() -> Path:
    """Where the SDKs' servers are: `ARMORY_TEST_SDKS`."""
    folder = Path(os.environ.get("ARMORY_TEST_SDKS", ""))
    if not (folder / "python").is_dir():
        pytest.skip("set ARMORY_TEST_SDKS; run tests/protocol/conformance/prepare.py")
    built("go", "everything-server")
    return folder


@contextlib.contextmanager
def serving(command: list[str], port: int, **env: str) -> Generator[None]:
    """A server that runs; it is there once it takes a connection."""
    with subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + START_S
            while True:
                assert process.poll() is None, f"{command} ended"
                assert time.monotonic() < deadline, f"{command} does not listen"
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def urls(sdks: Path) -> Iterator[dict[str, str]]:
    """The servers' own addresses, by name."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        for _ in range(3):
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            ports.append(taken.getsockname()[1])
    go = [str(sdks / "go" / "everything-server"), "-http"]
    python = [sys.executable, "-m", "mcp_everything_server", "--port", str(ports[0])]
    with contextlib.ExitStack() as running:
        paths = str(sdks / "python")
        running.enter_context(serving(python, ports[0], PYTHONPATH=paths))
        running.enter_context(serving([*go, f"127.0.0.1:{ports[1]}"], ports[1]))
        kept = [*go, f"127.0.0.1:{ports[2]}", "-stateless=false"]
        running.enter_context(serving(kept, ports[2]))
        yield {
            "python": f"http://127.0.0.1:{ports[0]}/mcp",
            "go": f"http://127.0.0.1:{ports[1]}/",
            "go-sessions": f"http://127.0.0.1:{ports[2]}/",
        }


@pytest.fixture(scope="module")
def behind(
    sdks: Path, urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Armory in front of them."""
    upstreams: dict[str, Any] = {
        "python-auto": {"url": urls["python"]},
        "python-modern": {"url": urls["python"], "protocol": MODERN},
        "python-legacy": {"url": urls["python"], "protocol": LEGACY},
        "go-auto": {"url": urls["go"]},
        "go-legacy": {"url": urls["go"], "protocol": LEGACY},
        "go-sessions-auto": {"url": urls["go-sessions"]},
        "go-stdio": {"command": str(sdks / "go" / "everything-server")},
    }
    config = {"upstreams": upstreams, "tool_rag": {"enabled": False}}
    with GatewayProcess(config, tmp_path_factory.mktemp("sdks")) as running:
        assert isinstance(running, GatewayProcess)
        yield running


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("server", "upstream"), CELLS)
def test_no_scored_scenario_is_lost(
    urls: dict[str, str],
    behind: GatewayProcess,
    run_server_suite: Run,
    requirements: Callable[[str], dict[str, Any]],
    server: str,
    upstream: str,
    revision: str,
) -> None:
    scored = set(requirements(revision)["server"])
    direct = run_server_suite(urls[server], revision)
    through = run_server_suite(f"{behind.url}/mcp/{upstream}", revision)
    lost = scored & through.failing.keys() - direct.failing.keys()
    expected = set(EXPECTED.get(f"{upstream}/{revision}", {"scenarios": ()})["scenarios"])
    assert lost == expected, "\n".join(through.messages)


def test_only_a_pin_costs_scenarios() -> None:
    for cell, entry in EXPECTED.items():
        upstream, _, revision = cell.partition("/")
        pinned = MODERN if upstream.endswith("-modern") else LEGACY
        assert upstream in {name for _, name in CELLS}
        assert upstream.endswith(("-modern", "-legacy"))
        assert revision != pinned, "a pin costs clients of its own era nothing"
        assert len(entry["reason"]) > 40
