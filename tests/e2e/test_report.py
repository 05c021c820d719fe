"""`armory report` on upstreams and on a data set; `armory queries`."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from armory.testing.chat import ScriptedChat

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "armory.cli.main", *arguments]
    env = {
        "ARMORY_HOME": str(tmp_path / "home"),
        "PATH": "/usr/bin:/bin",
        "COLUMNS": "120",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, env=env, check=False
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    tools = [
        {
            "id": f"t{n}",
            "name": f"tool_{n}",
            "server": "s",
            "description": f"Does the thing called {word} to a document",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        }
        for n, word in enumerate(["rotate", "translate", "print", "burn", "sign", "post"] * 10)
    ]
    queries = [
        {"id": "q1", "query": "rotate my document", "relevant": ["t0"]},
        {"id": "q2", "query": "sign the document", "relevant": ["t4"]},
    ]
    for name, rows in (("tools", tools), ("queries", queries)):
        lines = "\n".join(json.dumps(row) for row in rows)
        (folder / f"{name}.jsonl").write_text(lines + "\n", encoding="utf-8")
    return folder


def test_a_data_set_as_json_and_picture(tmp_path: Path, data: Path) -> None:
    picture = tmp_path / "out.svg"
    done = run(tmp_path, "report", "--data", str(data), "--json", "--svg", str(picture))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["tools"], told["queries"]) == (60, 2)
    assert told["tokens"]["filtered"]["mean"] < told["tokens"]["full"]
    assert told["tokens"]["searched"]["mean"] > told["tokens"]["meta_tools"]
    ElementTree.fromstring(picture.read_text(encoding="utf-8"))


def test_what_is_configured_is_what_is_counted(tmp_path: Path, data: Path) -> None:
    config = tmp_path / "armory.yaml"

    def tokens(*more: str, **settings: object) -> dict[str, Any]:
        config.write_text(yaml.safe_dump({"upstreams": {}, **settings}), encoding="utf-8")
        done = run(tmp_path, "report", "--data", str(data), "--config", str(config), *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["tokens"] if more else {"table": done.stdout}

    usual = tokens("--json")
    off = {"pin": ["*"], "search_tools": False, "call_tool": False}
    nothing = tokens("--json", tool_rag=off)
    assert nothing["filtered"]["saved_share"] == 0
    assert nothing["pinned"] == nothing["full"]
    assert (nothing["meta_tools"], nothing["searched"]) == (0, None)
    assert "search_tools" not in tokens(tool_rag=off)["table"]
    more = tokens("--json", agent={"enabled": True})
    assert more["meta_tools"] > usual["meta_tools"] + 100, "find_tools"


def test_a_query_that_is_too_long_is_cut_as_by_eval(data: Path, tmp_path: Path) -> None:
    row = {"id": "q", "query": "rotate my document " * 1_000, "relevant": ["t0"]}
    (data / "queries.jsonl").write_text(json.dumps(row), encoding="utf-8")
    done = run(tmp_path, "report", "--data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["queries"] == 1


def test_upstreams_with_queries_of_ones_own(tmp_path: Path) -> None:
    config = tmp_path / "armory.yaml"
    demo = {"command": sys.executable, "args": ["-m", "armory.demo"]}
    config.write_text(yaml.safe_dump({"upstreams": {"notes": demo}}), encoding="utf-8")
    queries = tmp_path / "queries.txt"
    queries.write_text("write a note\n\nfind old notes\n", encoding="utf-8")
    done = run(tmp_path, "report", "--config", str(config), "--queries", str(queries))
    assert done.returncode == 0, done.stderr
    assert "2 queries" in done.stdout
    assert "every tool" in done.stdout
    queries.write_text("\n", encoding="utf-8")
    refused = run(tmp_path, "report", "--config", str(config), "--queries", str(queries))
    assert refused.returncode == 2
    assert "write one a line" in refused.stderr


def test_skills_are_no_tools_that_a_query_lists(tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "treaties"
    skill.mkdir(parents=True)
    text = "---\nname: treaties\ndescription: Negotiate treaties between pirates\n---\nHow to.\n"
    (skill / "SKILL.md").write_text(text, encoding="utf-8")
    config = tmp_path / "armory.yaml"
    demo = {"command": sys.executable, "args": ["-m", "armory.demo"]}
    upstreams = {"notes": demo, "own": {"skills": str(tmp_path / "skills")}}
    config.write_text(yaml.safe_dump({"upstreams": upstreams}), encoding="utf-8")
    queries = tmp_path / "queries.txt"
    queries.write_text("negotiate a treaty between pirates\n", encoding="utf-8")
    done = run(tmp_path, "report", "--config", str(config), "--queries", str(queries), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["returned_mean"], told["empty_share"]) == (0, 1)


async def test_time_to_first_token(tmp_path: Path, data: Path) -> None:
    async with ScriptedChat(["hello there"]) as chat:
        arguments = ["report", "--data", str(data), "--json", "--ttft", "--base-url", chat.url]
        done = await asyncio.to_thread(run, tmp_path, *arguments, "--model", "m")
    assert done.returncode == 0, done.stderr
    ttft = json.loads(done.stdout)["ttft"]
    assert (ttft["model"], ttft["queries"]) == ("m", 2)
    assert ttft["full"]["prompt_tokens_mean"] > 3 * ttft["selected"]["prompt_tokens_mean"]
    assert len(chat.requests) == 4


def test_an_endpoint_that_is_not_there_fails_and_shows_no_figures(
    tmp_path: Path, data: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        arguments = ["report", "--data", str(data), "--ttft", "--base-url", url, "--model", "m"]
        done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--ttft measured nothing" in done.stderr
    assert url in done.stderr


async def test_queries_are_written_once_and_kept(tmp_path: Path) -> None:
    async with ScriptedChat(['["one thing", "another thing"]']) as chat:
        config = tmp_path / "armory.yaml"
        demo = {"command": sys.executable, "args": ["-m", "armory.demo"]}
        told = {"upstreams": {"notes": demo}, "agent": {"base_url": chat.url, "model": "m"}}
        config.write_text(yaml.safe_dump(told), encoding="utf-8")
        arguments = ["queries", "--config", str(config), "--json"]
        cost = await asyncio.to_thread(run, tmp_path, *arguments, "--estimate", "--price", "1", "2")
        assert cost.returncode == 0, cost.stderr
        before = json.loads(cost.stdout)
        assert (before["stored"], before["model"], chat.requests) == (0, "m", [])
        assert before["tools"] > 3
        assert before["price"] > 0
        shown = await asyncio.to_thread(run, tmp_path, *arguments[:-1], "--estimate")
        assert shown.stdout.startswith(f"{before['tools']} tools to do, 0 have their queries")
        done = await asyncio.to_thread(run, tmp_path, *arguments, "--yes")
        assert done.returncode == 0, done.stderr
        assert len(chat.requests) == before["tools"]
        again = await asyncio.to_thread(run, tmp_path, *arguments, "--yes")
        assert json.loads(again.stdout)["stored"] == before["tools"]
        assert len(chat.requests) == before["tools"]


def test_queries_that_fail_are_told_in_one_answer(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        config = tmp_path / "armory.yaml"
        demo = {"command": sys.executable, "args": ["-m", "armory.demo"]}
        told = {"upstreams": {"notes": demo}, "agent": {"base_url": url, "model": "m"}}
        config.write_text(yaml.safe_dump(told), encoding="utf-8")
        done = run(tmp_path, "queries", "--config", str(config), "--json", "--yes")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["failed"] > 0
    assert url in answer["problem"]
    assert "run it again" in done.stderr
