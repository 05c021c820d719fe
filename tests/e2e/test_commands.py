"""The commands that write and read: init, import, validate, tools, search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.config import load_text

Run = Callable[..., Any]
pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_an_encoding_cannot_say_fails_nothing(tmp_path: Path, encoding: str) -> None:
    half = "é ✓ \ud83d"  # and half an emoji, which no encoding has
    theirs = json.dumps({"mcpServers": {"a": {"command": "x", "args": [half]}}})
    (tmp_path / "theirs.json").write_text(theirs)

    def run(*options: str) -> bytes:
        command = [sys.executable, "-m", "armory.cli.main", "import", "theirs.json", "--print"]
        environ = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [*command, *options], cwd=tmp_path, capture_output=True, timeout=60, env=environ
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert json.loads(run("--json").decode(encoding))["upstreams"]["a"]["args"] == [half]
    # click takes UTF-8 where a locale has ASCII
    shown = {"ascii": "é ✓".encode(), "latin-1": b"\xe9 ?", "utf-8": "é ✓".encode()}[encoding]
    assert shown in run()


def test_a_question_that_nobody_answers_is_told_with_the_option(
    armory: Run, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    config = {"upstreams": {"notes": demo_upstreams["notes"]}, "agent": {"enabled": True}}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    done = armory("queries")
    assert done.returncode == 2
    assert "nobody answers here whether to go on; --yes asks nobody" in done.stderr
    assert armory("queries", input="n\n").returncode == 0


CLAUDE = """{
  // Claude Desktop, with a comment and a trailing comma
  "mcpServers": {
    "My Files": {"command": "npx", "args": ["-y", "files", "//not-a-comment"], "env": {"A": "b"},},
    "notes": {"command": "other"}
  }
}"""


def test_import_adds_to_the_file_and_keeps_its_comments(armory: Run, tmp_path: Path) -> None:
    (tmp_path / "claude.json").write_text(CLAUDE)
    (tmp_path / "armory.yaml").write_text(
        "# mine\nupstreams: # all of them\n    notes: {command: x} # stays\n\n"
        "server:\n  port: 1 # stays too\n"
    )
    done = armory("import", "claude.json")
    assert done.returncode == 0, done.stderr
    assert "notes is in armory.yaml already" in done.stderr
    text = (tmp_path / "armory.yaml").read_text()
    for line in ("# mine", "# all of them", "notes: {command: x} # stays", "port: 1 # stays too"):
        assert line in text
    config = load_text(text).config
    assert list(config.upstreams) == ["notes", "my-files"]
    assert config.upstreams["my-files"].args == ["-y", "files", "//not-a-comment"]
    assert config.upstreams["notes"].command == "x"
    assert config.server.port == 1


def test_import_of_the_same_file_again_adds_nothing(armory: Run, tmp_path: Path) -> None:
    (tmp_path / "claude.json").write_text(CLAUDE)
    assert armory("import", "claude.json").returncode == 0
    before = (tmp_path / "armory.yaml").read_text()
    done = armory("import", "claude.json")
    assert "My Files is in armory.yaml already" in done.stderr
    assert (tmp_path / "armory.yaml").read_text() == before
    other = CLAUDE.replace('"npx"', '"uvx"')
    (tmp_path / "claude.json").write_text(other)
    assert "my-files-2" in armory("import", "claude.json").stdout


def test_import_of_vs_code_into_no_file_yet(armory: Run, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        json.dumps(
            {
                "inputs": [{"id": "key"}],
                "servers": {
                    "hub": {"type": "http", "url": "https://h.example/mcp"},
                    "asks": {"command": "x", "env": {"K": "${input:api-key}"}},
                },
            }
        )
    )
    printed = armory("import", "mcp.json", "--print")
    assert yaml.safe_load(printed.stdout)["upstreams"]["hub"]["transport"] == "streamable-http"
    assert not (tmp_path / "armory.yaml").exists()
    done = armory("import", "mcp.json")
    assert done.returncode == 0
    assert "${API_KEY}" in done.stderr
    assert list(yaml.safe_load((tmp_path / "armory.yaml").read_text())["upstreams"]) == [
        "hub",
        "asks",
    ]


def test_import_of_something_else(armory: Run, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"theme": "dark"}')
    done = armory("import", "other.json")
    assert done.returncode == 2
    assert "mcpServers" in done.stderr


def test_tools_and_search_open_the_upstreams_themselves(
    armory: Run, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    everything = json.loads(armory("tools", "--json").stdout)["tools"]
    assert len([tool for tool in everything if "__" in tool["name"]]) == 14

    listed = json.loads(armory("tools", "-q", "what time is it in Tokyo?", "--json").stdout)
    names = [tool["name"] for tool in listed["tools"]]
    assert "time__get_current_time" in names
    assert not [name for name in names if name.startswith("notes__")]
    assert listed["selection"]["visible"] == 14

    found = armory("search", "write down a reminder", "--explain", "--json")
    answer = json.loads(found.stdout)
    assert answer["tools"][0]["name"] == "notes__add_note"
    assert answer["tools"][0]["reason"]
    assert len(answer["candidates"]) == 14
    assert all(c["signals"] for c in answer["candidates"])
    assert {c["withheld"] for c in answer["candidates"]} > {None}

    answer = json.loads(armory("search", "notes", "--explain", "--json").stdout)
    assert len([t for t in answer["tools"] if t["name"].startswith("notes__")]) == 12, "by name"
    assert answer["tools"][0]["reason"] == "its server's name is what was asked for"
    assert len(answer["candidates"]) == 14
    answer = json.loads(armory("search", "convert_time", "-k", "1", "--json").stdout)
    assert [tool["name"] for tool in answer["tools"]] == ["time__convert_time"]
    assert answer["tools"][0]["score"] == 1.0

    for arguments in (("tools",), ("search", "convert time"), ("version",), ("schema",)):
        assert armory(*arguments).returncode == 0


def test_upstreams_that_cannot_be_reached_are_named_and_end_with_3(
    armory: Run, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    dead = {"url": "http://127.0.0.1:9/mcp"}
    text = yaml.safe_dump({"upstreams": {"dead": dead, "notes": demo_upstreams["notes"]}})
    (tmp_path / "armory.yaml").write_text(text)
    for arguments in (("tools",), ("tools", "-q", "a note"), ("search", "write a note")):
        done = armory(*arguments)
        assert done.returncode == 3
        assert "notes__add_note" in done.stdout
        (said,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert said.startswith("error: upstream 'dead': ")
        assert "127.0.0.1:9" in said
        whole = armory(*arguments, "--json")
        assert whole.returncode == 3
        assert json.loads(whole.stdout)["tools"]
        assert "upstream 'dead'" in whole.stderr
    assert armory("search", "write a note", "--server", "notes").returncode == 0
    for arguments in (("report",), ("tune", "--dry-run"), ("queries", "--estimate")):
        done = armory(*arguments, "--json")
        assert done.returncode == 3, done
        assert json.loads(done.stdout)
        assert "upstream 'dead'" in done.stderr
    approved = armory("approve")
    assert approved.returncode == 3
    assert "upstream 'dead'" in approved.stderr

    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": {"dead": dead}}))
    nothing = armory("tools", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)) == (3, {"tools": []})
    assert "upstream 'dead'" in nothing.stderr
    for arguments in (("report",), ("tune", "--dry-run"), ("queries", "--estimate")):
        done = armory(*arguments, "--json")
        assert done.returncode == 3, done
        assert "upstream 'dead'" in json.loads(done.stdout)["error"]["message"]


def test_a_running_gateway_answers_the_same(
    armory: Run, serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    served = serve({"upstreams": demo_upstreams}).ready()
    there = json.loads(armory("tools", "--url", served.url, "--json").stdout)["tools"]
    assert len([tool for tool in there if "__" in tool["name"]]) == 14
    found = armory("search", "--url", served.base, "write down a reminder", "-k", "2", "--json")
    assert json.loads(found.stdout)["tools"][0]["name"] == "notes__add_note"
    most = ["--threshold", "1", "--ranker", "hybrid"]
    found = armory("search", "--url", served.base, "write down a reminder", *most, "--json")
    assert json.loads(found.stdout)["tools"] == [], "by the threshold of the query"
    called = armory("call", "--url", served.url, "notes__add_note", '{"title": "milk"}')
    assert called.returncode == 0
    assert "milk" in called.stdout
    one = ("--url", served.url + "/time")
    assert "the query was not searched: " in armory("tools", *one, "--query", "convert").stderr
    assert "/mcp/set/NAME take queries" in armory("search", *one, "convert").stderr


def test_a_search_there_shows_the_skills_that_it_found(
    armory: Run, serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "books" / "refunds"
    folder.mkdir(parents=True)
    head = "---\nname: refunds\ndescription: How to refund a customer\n---\n"
    (folder / "SKILL.md").write_text(head)
    books = {"skills": str(folder.parent)}
    served = serve({"upstreams": {**demo_upstreams, "books": books}}).ready()
    shown = armory("search", "--url", served.base, "refund a customer").stdout
    assert "skill: skill://books/refunds/SKILL.md (" in shown
    assert "of 14 tools" in shown


def failure(done: Any) -> dict[str, Any]:
    """The error that a command called with `--json` answered with."""
    found: dict[str, Any] = json.loads(done.stdout)["error"]
    assert found["exit_code"] == done.returncode
    return found


def test_with_json_a_failure_is_the_answer(armory: Run, tmp_path: Path) -> None:
    found = failure(armory("tools", "--json"))
    assert (found["code"], found["exit_code"]) == ("config", 2)
    assert "armory init" in found["message"]

    (tmp_path / "armory.yaml").write_text("server: {port: x}\nsets: {a: {servers: [b]}}\n")
    found = failure(armory("serve", "--json"))
    assert [problem["path"] for problem in found["problems"]] == [
        "server.port",
        "sets.a.servers[0]",
    ]
    assert found["problems"][1]["line"] == 2

    found = failure(armory("tools", "--nope", "--json"))
    assert (found["code"], found["exit_code"]) == ("usage", 2)
    found = failure(armory("call", "x__y", "{a: 1}", "--json"))
    assert "'{a: 1}' is not valid JSON" in found["message"]

    plain = armory("tools", "--nope")
    assert plain.stdout == ""
    assert "--nope" in plain.stderr


def test_a_mistyped_command_is_told_the_near_one(armory: Run) -> None:
    done = armory("tols")
    assert done.returncode == 2
    assert "Did you mean 'tools'?" in done.stderr


def test_a_url_where_no_gateway_is(armory: Run) -> None:
    url = "http://127.0.0.1:9"
    done = armory("tools", "--url", url)
    assert done.returncode == 3
    assert f"no gateway answers at {url}/mcp" in done.stderr
    assert "armory serve" in done.stderr
    assert "upstream" not in done.stderr
    assert failure(armory("tools", "--url", url, "--json"))["code"] == "upstream_unavailable"


def test_what_a_gateway_refuses_says_what_to_give_it(
    armory: Run, serve: Callable[..., Any], tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    security = {"tokens": {"a": {"token": "a-long-token"}}, "allow_anonymous": False}
    served = serve({"upstreams": demo_upstreams, "security": security}).ready()
    found = failure(armory("tools", "--url", served.url, "--json"))
    assert (found["code"], found["exit_code"]) == ("authentication_failed", 1)
    assert "--token or $ARMORY_TOKEN" in found["message"]
    assert "refuses: HTTP 401, " in found["message"]
    assert "jsonrpc" not in found["message"]
    token = ("--token", "a-long-token")
    found = failure(armory("tools", "--url", served.url + "/nothing", *token, "--json"))
    assert found["exit_code"] == 3
    assert "is no MCP endpoint of a gateway" in found["message"]
    call = ("call", "--url", served.url, *token, "time__get_curent_time", "--json")
    found = failure(armory(*call))
    assert (found["code"], found["exit_code"]) == ("unknown", 1)
    assert "did you mean 'time__get_current_time'?" in found["message"]
    (tmp_path / "armory.yaml").write_text(
        yaml.safe_dump({"upstreams": {"it": {"url": served.url}}})
    )
    done = armory("tools")
    assert done.returncode == 3
    assert "error: upstream 'it': wants a login: " in done.stderr


def test_the_endpoint_of_a_server_that_is_down_is_an_endpoint(
    armory: Run, serve: Callable[..., Any]
) -> None:
    gone = {"command": sys.executable, "args": ["-c", "raise SystemExit(1)"]}
    served = serve({"upstreams": {"gone": gone}}).ready()
    found = failure(armory("tools", "--url", served.url + "/gone", "--json"))
    assert (found["code"], found["exit_code"]) == ("upstream_unavailable", 3)
    assert f"the gateway at {served.url}/gone cannot answer: " in found["message"]
    assert "upstream 'gone'" in found["message"]


def test_an_unknown_tool_of_a_server_opened_here(
    armory: Run, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    done = armory("call", "time__get_curent_time")
    assert done.returncode == 1
    assert "did you mean 'time__get_current_time'?" in done.stderr
