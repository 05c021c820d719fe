"""The port of a gateway that runs already is no trouble."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.doctor.machine import port
from armory.runtime.entry.local_access import announced


@pytest.mark.parametrize("path", ["", "/tools"])
def test_the_port_of_ones_own_gateway_is_told_as_such(tmp_path: Path, path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        text = f"server: {{port: {number}, base_path: '{path}'}}\n"
        loaded = load_text(text, environ={"ARMORY_HOME": str(tmp_path)})
        assert port(loaded).state == "failed"
        with announced(tmp_path, f"http://127.0.0.1:{number}{path}", "a-token"):
            found = port(loaded)
    assert found.state == "ok"
    assert "a gateway of yours runs there" in found.detail
