"""The port is taken before anything else starts."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from armory.config import load_text
from armory.errors import ConfigError
from armory.runtime import open_runtime
from armory.web.binding import bind


def test_port_zero_is_any_that_is_free_and_the_same_for_every_address() -> None:
    bound = bind("localhost", 0)
    try:
        assert bound.port > 0
        assert {taken.getsockname()[1] for taken in bound.sockets} == {bound.port}
    finally:
        bound.close()


def test_two_colons_are_every_address_of_both_kinds() -> None:
    bound = bind("::", 0)
    try:
        for taken in bound.sockets:
            taken.listen()
        for host in ("127.0.0.1", *(["::1"] if len(bound.sockets) > 1 else [])):
            socket.create_connection((host, bound.port), timeout=5).close()
        assert {taken.family for taken in bound.sockets} >= {socket.AF_INET}
    finally:
        bound.close()


def test_what_cannot_be_bound_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 is taken.*--port 0"):
            bind("127.0.0.1", port)
    with pytest.raises(ConfigError, match="no address of this machine") as found:
        bind("192.0.2.1", 0)
    assert found.value.path == "server.host"
    with pytest.raises(ConfigError, match="no name that can be resolved"):
        bind("no..host", 0)


@pytest.mark.anyio
async def test_a_taken_port_starts_no_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path))
    started = tmp_path / "started"
    loaded = load_text(
        f"""
upstreams:
  one:
    command: {sys.executable}
    args: [-c, "open({str(started)!r}, 'w'); import time; time.sleep(60)"]
"""
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match="is taken"),
    ):
        async with open_runtime(loaded, address=("127.0.0.1", taken.getsockname()[1])):
            pytest.fail("it serves")
    assert not started.exists()
    assert not (tmp_path / "armory.db").exists()
