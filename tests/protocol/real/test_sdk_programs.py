"""Clients of the official Go, Rust and Java SDKs (tests/clients) in front of a real server.

Each speaks every era that its SDK has, and sees through the gateway what it sees directly.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from armory.testing.processes import GatewayProcess
from tests.protocol.conformance.built import built
from tests.protocol.real.conftest import npm_server

pytestmark = [pytest.mark.node, pytest.mark.timeout(180)]
MODERN, LEGACY = "2026-07-28", "2025-11-25"
RUN_S = 100
PREFIX = "everything__"
PROGRAMS = {"go": "client", "rust": "client", "java": "classes"}
ERAS = [("go", MODERN), ("go", LEGACY), ("rust", MODERN), ("rust", LEGACY), ("java", LEGACY)]
"""The Java SDK (2.1) has the handshake's revisions alone."""
OF_THE_PLACE = {"tools", "found"}


@pytest.fixture(scope="module")
def behind(
    node: str, node_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Armory in front of the everything server, which it starts."""
    server = npm_server(node, node_dir, "server-everything", "stdio")
    config = {"upstreams": {"everything": {**server, "connect_timeout_s": 40}}}
    with GatewayProcess(config, tmp_path_factory.mktemp("programs")) as running:
        assert isinstance(running, GatewayProcess)
        yield running


@pytest.fixture(scope="module")
def directly(node: str, node_dir: Path) -> Iterator[str]:
    """The everything server's own address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server = npm_server(node, node_dir, "server-everything", "streamableHttp")
    command = [server["command"], *server["args"]]
    with subprocess.Popen(
        command, env={"PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            said = [process.stderr.readline()]
            while "listening" not in said[-1]:
                assert said[-1], said
                said.append(process.stderr.readline())
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients' root."""
    return tmp_path_factory.mktemp("root")


@cache
def look(language: str, url: str, revision: str, folder: Path, prefix: str) -> dict[str, Any]:
    """What one client saw; each looks once."""
    program = built(language, PROGRAMS[language])
    command = [str(program)]
    if language == "java":
        lib = program.parent / "lib"
        command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", f"{program}:{lib}/*", "Client"]
    command += [url, revision, str(folder), prefix]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("language", "revision"), ERAS)
def test_it_does_all_that_a_client_does(
    behind: GatewayProcess, folder: Path, language: str, revision: str
) -> None:
    seen = look(language, f"{behind.url}/mcp", revision, folder, PREFIX)
    assert seen["revision"] == revision
    assert f"{PREFIX}trigger-sampling-request" in seen["tools"]
    found = {name for name in seen["found"] if name.startswith(PREFIX)}
    assert f"{PREFIX}get-sum" in found
    assert found < set(seen["tools"])
    assert "Echo: hello" in seen["echo"]
    assert "Echo: again" in seen["again"]
    assert "Paris, of course" in seen["sampled"]
    assert "Ada" in seen["elicited"]
    assert str(folder) in seen["roots"]
    assert seen["progress"] == 2
    assert seen["canceled"]
    assert seen["read"]
    assert seen["updated"] == "demo://resource/dynamic/text/1"


@pytest.mark.parametrize("language", PROGRAMS)
def test_it_sees_what_it_sees_directly(
    behind: GatewayProcess, directly: str, folder: Path, language: str
) -> None:
    through = look(language, f"{behind.url}/mcp", LEGACY, folder, PREFIX)
    alone = look(language, directly, LEGACY, folder, "")
    assert sorted(through["tools"]) == sorted(PREFIX + name for name in alone["tools"])
    for key in through.keys() - OF_THE_PLACE:
        assert through[key] == alone[key], key
