"""What goes wrong for users: a clear message each, the documented exit code, never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from armory.runtime.entry.local_access import Note
from tests.contract.qdrant_server import QdrantServer
from tests.e2e.conftest import ARMORY

Run = Callable[..., Any]
pytestmark = pytest.mark.timeout(400)


def write(folder: Path, config: Any) -> None:
    text = config if isinstance(config, str) else yaml.safe_dump(config)
    (folder / "armory.yaml").write_text(text)


def failed(done: Any, code: int, *words: str) -> str:
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    assert "Traceback" not in text
    for word in words:
        assert word in text, text
    return text


def test_without_a_configuration(armory: Run) -> None:
    failed(armory("serve"), 2, "no armory.yaml", "armory init")
    failed(armory("serve", "--config", "elsewhere.yaml"), 2, "elsewhere.yaml")
    failed(armory("tools", env={"ARMORY_CONFIG": "gone.yaml"}), 2, "$ARMORY_CONFIG", "gone.yaml")


@pytest.mark.parametrize("command", ["serve", "validate", "tools"])
def test_a_configuration_that_does_not_hold(armory: Run, tmp_path: Path, command: str) -> None:
    write(tmp_path, "server: {prot: 1}\nupstreams: {a: {url: '${GONE}'}}\n")
    failed(armory(command), 2, "2 problems", "did you mean 'port'?", "GONE is not set", "line 2")


@pytest.mark.parametrize("out", ["full", "gone"])
@pytest.mark.parametrize(
    ("command", "word"), [("tools", "did you mean"), ("nope", "No such command")]
)
def test_an_answer_in_json_that_nobody_can_read_is_told_on_standard_error(
    environ: dict[str, str], tmp_path: Path, command: str, word: str, out: str
) -> None:
    """A full disk, or a pipe whose reader went away."""
    write(tmp_path, "server: {prot: 1}\n")
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "w") if out == "full" else os.fdopen(writing, "w") as standard:
        done = subprocess.run(
            [*ARMORY, command, "--json"],
            stdout=standard,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environ,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_broken_yaml_is_told_with_its_line(armory: Run, tmp_path: Path) -> None:
    write(tmp_path, "upstreams: {time: {command: [}")
    failed(armory("serve"), 2, "broken YAML", "line 1")


def test_validate_names_what_only_building_finds_too(armory: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "server": {"host": "0.0.0.0"},
            "upstreams": {"a": {"command": "x", "url": "http://h/mcp"}, "b": {}},
        },
    )
    done = armory("validate", "--json")
    assert done.returncode == 2
    report = json.loads(done.stdout)
    assert not report["ok"]
    paths = [problem["path"] for problem in report["problems"]]
    assert paths == ["upstreams.a", "upstreams.b", "security.allow_anonymous"]


def test_an_open_gateway_is_refused_unless_it_is_meant(armory: Run, tmp_path: Path) -> None:
    write(tmp_path, {"server": {"host": "0.0.0.0"}})
    failed(armory("serve", "--port", "0"), 2, "allow_anonymous", "security.tokens")


def test_what_cannot_be_served_is_told_before_it_is_said_to_listen(
    armory: Run, tmp_path: Path
) -> None:
    write(tmp_path, {})
    done = armory("serve", "--host", "0.0.0.0", "--port", "0", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["path"] == "security.allow_anonymous"
    (tmp_path / "file").write_text("")
    for home in ("file", "file/below"):
        env = {"ARMORY_HOME": str(tmp_path / home)}
        done = armory("serve", "--port", "0", "--json", env=env)
        assert done.returncode == 2
        assert "has to be a folder" in json.loads(done.stdout)["error"]["message"]


def test_a_port_of_the_command_line_is_not_the_one_of_the_metrics(
    armory: Run, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    write(tmp_path, {"server": {"metrics": {"port": port}}})
    failed(armory("serve", "--port", str(port)), 2, "server.metrics.port", "is the main port")


def test_a_taken_port(armory: Run, tmp_path: Path) -> None:
    write(tmp_path, {"upstreams": {}})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed(armory("serve", "--port", port), 2, f"port {port}", "--port")


def test_a_port_that_a_gateway_of_ones_own_has(armory: Run, tmp_path: Path) -> None:
    write(tmp_path, {"upstreams": {}})
    home = tmp_path / "home"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        note = Note(home, f"http://127.0.0.1:{port}", "a-token")
        note.leave()
        done = armory("serve", "--port", port, env={"ARMORY_HOME": str(home)})
        failed(done, 2, "a gateway of yours", str(os.getpid()), "--port")
        note.remove()


def test_upstreams_that_cannot_be_reached(armory: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "upstreams": {
                "gone": {"command": "no-such-program"},
                "away": {"url": "http://127.0.0.1:9/mcp"},
                "notes": {"command": "python", "args": ["-m", "no_such_module"]},
            }
        },
    )
    done = armory("validate", "--connect", "--json")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["index"] == {"name": "exact", "state": "ready", "error": ""}
    upstreams = json.loads(done.stdout)["upstreams"]
    assert {found["state"] for found in upstreams.values()} == {"down"}
    assert "no-such-program" in upstreams["gone"]["error"]
    assert "no_such_module" in upstreams["notes"]["error"]
    failed(armory("call", "gone__anything"), 3, "no-such-program")
    failed(armory("call", "nobody__anything"), 1, "nobody__anything")


class _Unauthorized(BaseHTTPRequestHandler):
    """A server that lets nobody in."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_an_upstream_of_the_callers_own_accounts_is_not_away(armory: Run, tmp_path: Path) -> None:
    """The gateway itself has no login there for good, and needs none."""
    with HTTPServer(("127.0.0.1", 0), _Unauthorized) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        auth = {"type": "authorization_code", "per": "principal"}
        write(tmp_path, {"upstreams": {"own": {"url": url, "auth": auth}}})
        done = armory("validate", "--connect", "--json")
        server.shutdown()
    assert done.returncode == 0, done
    own = json.loads(done.stdout)["upstreams"]["own"]
    assert (own["state"], own["up"]) == ("login_required", True)


def test_approve_gives_no_all_clear_for_servers_that_it_could_not_ask(
    armory: Run, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    upstreams = {"time": demo_upstreams["time"], "gone": {"command": "no-such-program"}}
    write(tmp_path, {"upstreams": upstreams, "security": {"pinning": "block"}})
    shown = failed(
        armory("approve"), 3, "'gone'", "no-such-program", "of the servers that answered"
    )
    assert "No definition has changed." not in shown
    done = armory("approve", "--all", "--json")
    assert done.returncode == 3
    assert list(json.loads(done.stdout)["unreachable"]) == ["gone"]
    failed(armory("approve", "gone__anything"), 3, "no-such-program")
    assert armory("approve", "time__get_current_time").returncode == 0


def test_a_vector_store_that_refuses_the_key(armory: Run, tmp_path: Path) -> None:
    server = QdrantServer()
    server.api_key = "right"
    server.start()
    store = {"url": server.url, "api_key": "wrong"}
    write(tmp_path, {"upstreams": {}, "tool_rag": {"index": "qdrant", "qdrant": store}})
    failed(armory("validate", "--connect"), 3, "HTTP 401", "check tool_rag.qdrant.api_key")
    server.close()


@pytest.mark.postgres
def test_services_that_cannot_be_reached(armory: Run, tmp_path: Path) -> None:
    away = "http://127.0.0.1:9/v1"
    write(
        tmp_path,
        {
            "upstreams": {},
            "storage": {
                "url": "postgresql://armory:hunter22@127.0.0.1:9/armory",
                "redis": "redis://:hunter22@127.0.0.1:9/0",
            },
            "tool_rag": {
                "embedding_model": "text-embedding-3-small",
                "openai": {"api_key": "sk-hunter22", "base_url": away},
            },
            "agent": {"enabled": True, "base_url": away},
        },
    )
    shown = failed(armory("validate", "--connect"), 3)
    done = armory("validate", "--connect", "--json")
    assert done.returncode == 3
    services = {found["check"]: found for found in json.loads(done.stdout)["services"]}
    keys = ("storage.url", "storage.redis", "tool_rag.openai.base_url", "agent.base_url")
    for check, key in zip(("database", "redis", "embedder", "agent"), keys, strict=True):
        assert services[check]["state"] == "failed"
        assert key in services[check]["fix"]
        assert key in shown
    assert "hunter22" not in shown + done.stdout + done.stderr


def test_a_gateway_that_is_not_there(armory: Run) -> None:
    failed(armory("tools", "--url", "http://127.0.0.1:9"), 3, "127.0.0.1:9")
    failed(armory("tools", "--url", "ftp://x"), 2, "no URL of a gateway")


def test_a_gateway_elsewhere_is_asked_as_one_opened_here_is(
    armory: Run, serve: Run, tmp_path: Path
) -> None:
    served = serve({"upstreams": {}}).ready()
    write(tmp_path, {"upstreams": {}})
    for place in ((), ("--url", served.url)):
        for asked in (("search", " "), ("search", "x", ""), ("tools", "-q", "")):
            failed(armory(*asked, *place), 2, "the query is blank")
    failed(armory("search", "--agent", "x", "--url", served.url), 1, "agent.enabled")
    for place in ((), ("--url", served.url)):
        for asked in (("search", "x" * 9_000), ("tools", "-q", "x" * 9_000)):
            done = armory(*asked, *place, "--json")
            assert done.returncode == 2, done
            error = json.loads(done.stdout)["error"]
            assert error["code"] == "invalid_request"
            assert "query" in error["parameter"]
    unknown = ("search", "add a note", "--server", "note", "--url", served.url)
    assert "no tool that you may use" in armory(*unknown).stderr


def test_a_search_of_an_upstream_that_there_is_not(armory: Run, tmp_path: Path) -> None:
    write(tmp_path, {"upstreams": {"notes": {"command": "x", "enabled": False}}})
    for more in ((), ("--json",)):
        done = armory("search", "add a note", "--server", "note", *more)
        failed(done, 2, "--server note: no such upstream; there are: notes")


def test_logins_at_upstreams_that_are_off_or_not_there(armory: Run, tmp_path: Path) -> None:
    login = {"type": "authorization_code"}
    off = {"url": "http://127.0.0.1:9/mcp", "auth": login, "enabled": False}
    write(tmp_path, {"upstreams": {"docs": off}})
    failed(armory("login", "docs", "--no-browser"), 2, "upstreams.docs.enabled: it is switched off")
    failed(armory("login", "dcos", "--no-browser"), 2, "did you mean 'docs'?")
    assert "was not logged in at docs" in armory("logout", "docs").stdout
    for command in ("login", "logout"):
        for nobody in ("", " ", "a\nb"):
            said = f"--as is {nobody!r}; expected a user"
            failed(armory(command, "docs", "--as", nobody), 2, said)
    done = armory("logout", "docs", "--json")
    assert json.loads(done.stdout) == {"server": "docs", "logged_out": False}


def test_calls_that_are_wrong(armory: Run, tmp_path: Path, demo_upstreams: dict[str, Any]) -> None:
    write(tmp_path, {"upstreams": demo_upstreams})
    failed(armory("call", "time__get_current_time", "[1]"), 2, "a JSON object is expected")
    failed(armory("call", "time__get_current_time", "{"), 2, "not valid JSON")
    failed(armory("call", "time__no_such_tool"), 1, "no_such_tool")
    wrong = armory("call", "time__get_current_time", '{"timezone": "Nowhere/At_All"}')
    failed(wrong, 1, "Nowhere/At_All")
    done = armory("call", "time__get_current_time", "-", "--json", input='{"timezone": "UTC"}')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["structuredContent"]["timezone"] == "UTC"


def test_usage_errors(armory: Run) -> None:
    failed(armory("no-such-command"), 2, "no-such-command")
    failed(armory("serve", "--port", "99999"), 2, "--port")
    failed(armory("search"), 2, "QUERY")
