"""`armory status` and `armory logs`, of a gateway that runs here and of one at a URL."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armory.testing.servers import RedisServer

Command = Callable[..., Any]


def test_status_and_logs_tell_what_is_down_and_why(
    serve: Callable[..., Any], armory: Command, demo_upstreams: dict[str, Any]
) -> None:
    nobody = armory("status")
    assert nobody.returncode == 3
    assert "no gateway runs here" in nobody.stderr
    assert len(nobody.stderr.strip().splitlines()) == 1

    script = "import sys; sys.exit('Error: no key, password=abcdefgh123')"
    broken = {"command": sys.executable, "args": ["-c", script]}
    upstreams = {"notes": demo_upstreams["notes"], "broken": broken}
    served = serve({"upstreams": upstreams}).searchable()

    told = armory("status")
    assert told.returncode == 0, told.stderr
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[:3] for row in rows] == [
        [served.base, "broken", "down"],
        [served.base, "notes", "ready"],
    ]
    assert "it said: Error: no key, password=***" in rows[0][4]

    whole = json.loads(armory("status", "--json", "--url", served.url).stdout)["gateways"][0]
    assert whole["status"] == "ready"
    notes = whole["upstreams"]["notes"]
    assert notes["state"] == "ready"
    assert notes["isolation"] == "principal"
    assert (notes["sessions"], notes["max_sessions"]) == (1, 100)
    assert (notes["own_sessions"], notes["shared_sessions"], notes["principals"]) == (0, 0, 0)
    stranger = json.loads(
        armory("status", "--json", "--url", served.url.replace("127.0.0.1", "localhost")).stdout
    )
    assert set(stranger["gateways"][0]) == {"url", "pid", "status"}

    kept = armory("logs", "broken", "--lines", "1")
    assert kept.stdout == "Error: no key, password=***\n"
    told = json.loads(armory("logs", "broken", "--json").stdout)
    assert (told["server"], told["process"]) == ("broken", whole["process"])
    silent = armory("logs", "notes")
    assert (silent.returncode, silent.stdout) == (0, "")
    assert "note: 'notes' has written nothing to standard error" in silent.stderr
    typo = armory("logs", "brokn")
    assert typo.returncode == 1
    assert "no upstream is called 'brokn'; did you mean 'broken'?" in typo.stderr
    refused = armory("logs", "broken", "--url", served.url.replace("127.0.0.1", "localhost"))
    assert refused.returncode == 1
    assert "scope `admin`" in refused.stderr


def test_status_says_why_there_are_no_details(
    serve: Callable[..., Any], armory: Command, demo_upstreams: dict[str, Any]
) -> None:
    weak = "a-token-without-scopes-0123456789"
    tokens = {"weak": {"token": weak, "scopes": ["reader"]}}
    security = {"allow_anonymous": False, "tokens": tokens}
    served = serve({"upstreams": {"notes": demo_upstreams["notes"]}, "security": security}).ready()
    for form in ((), ("--json",)):
        wrong = armory("status", "--url", served.url, "--token", "of-nobody-0123456789", *form)
        assert wrong.returncode == 1
        assert "refuses" in wrong.stderr
        assert "--token" in wrong.stderr
        little = armory("status", "--url", served.url, "--token", weak, *form)
        assert little.returncode == 0
        assert "scope `admin`; this one has reader" in little.stderr
        other = served.url.replace("127.0.0.1", "localhost")
        nobody = armory("status", "--url", other, *form)
        assert nobody.returncode == 0
        assert "told to tokens with the scope `admin`: --token" in nobody.stderr


@pytest.mark.redis
def test_status_in_a_pipe_tells_what_else_than_upstreams_is_not_ready(
    serve: Callable[..., Any], armory: Command, demo_upstreams: dict[str, Any], redis: RedisServer
) -> None:
    config = {"upstreams": {"notes": demo_upstreams["notes"]}, "storage": {"redis": redis.url}}
    served = serve(config).searchable()
    redis.kill()
    served.wait_for("shared_store_away")
    told = armory("status")  # as `kubectl exec` runs it
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[:3] for row in rows] == [
        [served.base, "notes", "ready"],
        [served.base, "", "ready"],
    ]
    assert rows[1][4].startswith("shared store: Redis failed (")


def test_status_tells_what_of_a_folder_of_skills_is_left_out(
    serve: Callable[..., Any], armory: Command, tmp_path: Path
) -> None:
    for name, text in (("one", "# One\n"), ("two", "---\nname: two\ndescription: It\n---\n")):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
    serve({"upstreams": {"own": {"skills": str(tmp_path / "skills")}}}).searchable()
    (row,) = [line.split("\t") for line in armory("status").stdout.splitlines()]
    assert row[1:3] == ["own", "ready"]
    assert row[4].startswith("left out: one: its SKILL.md does not begin with frontmatter")
    (whole,) = json.loads(armory("status", "--json").stdout)["gateways"]
    assert whole["upstreams"]["own"]["skills"] == 1
    assert [left["entry"] for left in whole["upstreams"]["own"]["left_out"]] == ["one"]


def test_a_gateway_that_is_not_there_is_told_in_one_sentence(armory: Command) -> None:
    for arguments in (("status",), ("logs", "x")):
        told = armory(*arguments, "--url", "http://127.0.0.1:9")
        assert told.returncode == 3
        assert "no gateway answers at http://127.0.0.1:9" in told.stderr
        assert len(told.stderr.strip().splitlines()) == 1
    assert armory("status", "--url", "ftp://x").returncode == 2


def test_a_gateway_known_by_another_name_is_asked_from_its_own_machine(
    serve: Callable[..., Any], armory: Command, demo_upstreams: dict[str, Any]
) -> None:
    weak = "a-token-without-scopes-0123456789"
    served = serve(
        {
            "server": {"host": "0.0.0.0", "allowed_hosts": ["tools.example.org"]},
            "upstreams": {"notes": demo_upstreams["notes"]},
            "security": {"tokens": {"weak": {"token": weak, "scopes": ["reader"]}}},
        }
    ).ready()
    # as in a container whose environment has the token of its clients
    env = {"ARMORY_TOKEN": weak, "http_proxy": "http://127.0.0.1:9"}
    silent = "note: 'notes' has written nothing to standard error\n"
    for asked, said in (
        (("logs", "notes"), silent),
        (("reload", "--dry-run"), ""),
        (("status",), ""),
    ):
        done = armory(*asked, env=env)
        assert (done.returncode, done.stderr) == (0, said), asked
    link = armory("console", env=env)
    assert weak not in link.stdout
    assert "refuses what a browser asks of 127.0.0.1: add 127.0.0.1 to server.all" in link.stderr
    assert "or open the link at tools.example.org" in link.stderr
    base = served.base.replace("127.0.0.1", "localhost")
    for asked in (("tools", "--url", f"{base}/mcp"), ("logs", "notes", "--url", base)):
        done = armory(*asked, env=env)
        assert done.returncode == 1, asked
        assert "refuses" in done.stderr
        assert "server.allowed_hosts" in done.stderr
        assert "no MCP endpoint" not in done.stderr
        assert "scope" not in done.stderr


def test_a_gateway_elsewhere_is_asked_through_the_proxy_of_the_environment(
    serve: Callable[..., Any], armory: Command, demo_upstreams: dict[str, Any]
) -> None:
    config = {
        "server": {"allowed_hosts": ["gateway.example"]},
        "upstreams": {"notes": demo_upstreams["notes"]},
    }
    served = serve(config).ready()
    env = {"http_proxy": served.base, "no_proxy": ""}  # it takes the requests of its own proxy
    there = ("--url", "http://gateway.example/mcp")
    for asked in (("tools",), ("search", "a note"), ("call", "notes__list_notes")):
        done = armory(*asked, *there, env=env)
        assert (done.returncode, done.stderr) == (0, ""), asked
    for proxy, code in (("http://ann:hunter2@127.0.0.1:9", 3), ("socks5://127.0.0.1", 2)):
        done = armory("tools", *there, env={"http_proxy": proxy, "no_proxy": ""})
        assert done.returncode == code, done.stderr
        assert "proxy" in done.stderr
        assert "hunter2" not in done.stderr
    direct = armory("tools", *there, env={"http_proxy": served.base, "no_proxy": "gateway.example"})
    assert direct.returncode == 3
