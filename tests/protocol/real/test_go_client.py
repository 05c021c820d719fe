"""The Go SDK's own client (tests/clients/go), in both eras, in front of a real server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Protocol

import pytest

pytestmark = [pytest.mark.node, pytest.mark.timeout(120)]


class Gateway(Protocol):
    """A gateway that runs."""

    url: str


@pytest.fixture
def go_client() -> Path:
    """The program; see tests/protocol/conformance/prepare.py."""
    program = Path(os.environ.get("ARMORY_TEST_SDKS", "")) / "go" / "client"
    if not program.is_file():
        pytest.skip("the Go SDK's client was not built (no Go toolchain)")
    return program


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_it_does_all_that_a_client_does(
    gateway: Gateway, go_client: Path, tmp_path: Path, revision: str
) -> None:
    command = [str(go_client), f"{gateway.url}/mcp", revision, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["revision"] == revision
    assert "everything__trigger-sampling-request" in seen["tools"]
    assert seen["tools"]
    assert "Echo: hello" in seen["echo"]
    assert "Echo: again" in seen["again"]
    assert "Paris, of course" in seen["sampled"]
    assert "Ada" in seen["elicited"]
    assert str(tmp_path) in seen["roots"]
    assert seen["progress"] == 2
    assert seen["canceled"]
    assert seen["read"]
    assert seen["updated"] == "demo://resource/dynamic/text/1"
