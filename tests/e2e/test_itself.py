"""A gateway is never its own upstream, and starts no other of the same file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.testing.servers import free_port
from tests.e2e.conftest import Command, Serve

pytestmark = pytest.mark.timeout(120)
STDIO = ["-m", "armory.cli.main", "serve", "--stdio"]


def test_it_does_not_start_with_itself_as_an_upstream(armory: Command, tmp_path: Path) -> None:
    port = free_port()
    config = {"server": {"port": port}, "upstreams": {"self": {"url": f"http://[::1]:{port}/mcp"}}}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    checked = armory("validate")
    assert checked.returncode == 0
    assert "is this gateway itself" in checked.stderr
    done = armory("serve")
    assert done.returncode == 2
    assert "upstreams.self.url" in done.stderr
    assert "take that upstream out" in done.stderr


def test_a_reload_brings_it_no_such_upstream(
    serve: Serve, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    port = free_port()
    config: dict[str, Any] = {"upstreams": {"notes": demo_upstreams["notes"]}}
    path = tmp_path / "armory.yaml"
    path.write_text(yaml.safe_dump(config))
    served = serve(path, "--port", str(port)).ready()
    bridge = {"command": "npx", "args": ["-y", "mcp-remote", f"http://localhost:{port}/sse"]}
    config["upstreams"] = {"notes": demo_upstreams["notes"], "self": bridge}
    path.write_text(yaml.safe_dump(config))
    served.wait_for(r"upstreams\.self\.args: .* is this gateway itself")


def test_a_chain_of_the_same_file_ends_at_once(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "armory.yaml"
    own = {
        "command": sys.executable,
        "args": [*STDIO, "--config", str(path)],
        "env": {"PYTHONPATH": ":".join(part for part in sys.path if part)},
    }
    path.write_text(yaml.safe_dump({"upstreams": {"self": own}}))
    serve(path).wait_for("'self': its process exited .* is served by the gateway that started this")


CLIENT = {
    "armory": {"url": "http://127.0.0.1:8080/mcp?query=x"},
    "spawned": {"command": "/venv/bin/armory", "args": ["serve", "--stdio", "--config", "OWN"]},
    "by-uvx": {"command": "uvx", "args": ["--from", "x", "armory", "serve", "--stdio"]},
    "bridged": {"command": "npx", "args": ["-y", "mcp-remote", "http://localhost:8080/mcp"]},
    "another": {"url": "http://127.0.0.1:8081/mcp"},
    "of-another-file": {"command": "armory", "args": ["serve", "--stdio", "--config", "/x.yaml"]},
    "one-server": {"url": "http://127.0.0.1:8080/mcp/time"},
}


def test_what_is_taken_over_leaves_out_the_gateway(armory: Command, tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": CLIENT}).replace("OWN", str(tmp_path / "armory.yaml"))
    (tmp_path / "mcp.json").write_text(text)
    done = armory("import", "mcp.json")
    assert done.returncode == 0, done.stderr
    for name in ("armory", "spawned", "by-uvx", "bridged"):
        assert f"server '{name}' is this gateway itself and is left out" in done.stderr
    taken = yaml.safe_load((tmp_path / "armory.yaml").read_text())["upstreams"]
    assert list(taken) == ["another", "of-another-file", "one-server"]


def test_it_goes_by_the_port_of_the_file(armory: Command, tmp_path: Path) -> None:
    (tmp_path / "armory.yaml").write_text("server: {port: 8081}\n")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": CLIENT}))
    done = armory("import", "mcp.json", "--json")
    assert done.returncode == 0, done.stderr
    upstreams = json.loads(done.stdout)["upstreams"]
    assert "another" not in upstreams
    assert "armory" in upstreams
