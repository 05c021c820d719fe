"""The retrieval agent on its surfaces: `find_tools`, REST and the command line."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import toon_format
import yaml
from click.testing import CliRunner
from mcp import Client

from armory.cli.main import cli
from armory.errors import ConfigError, InvalidRequest
from armory.retrieval.embedders.base import text_hash
from armory.testing.chat import ScriptedChat, Turn
from armory.testing.clients.talker import Talker
from armory.testing.processes import GatewayProcess
from armory.testing.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TURNS = [
    'Thought: notes\nAction: vector_search\nAction Input: {"query": "write down a note"}',
    'Thought: documents\nAction: keyword_search\nAction Input: {"query": "E1042 rollback"}',
    "Thought: enough\nFinal Answer: notes__add, see rollback.md#0",
]


def configuration(chat: str, folder: Path) -> dict[str, Any]:
    documents = folder / "documents"
    documents.mkdir()
    (documents / "rollback.md").write_text("Error E1042: roll back.", encoding="utf-8")
    return {
        "upstreams": {"notes": {"command": sys.executable, "args": ["-m", "armory.demo"]}},
        "agent": {
            "enabled": True,
            "base_url": chat,
            "model": "scripted",
            "documents": str(documents),
        },
    }


@asynccontextmanager
async def running(turns: list[str | Turn], folder: Path) -> AsyncGenerator[GatewayProcess]:
    async with ScriptedChat(turns) as chat:
        config = configuration(chat.url, folder)
        process = await asyncio.to_thread(GatewayProcess, config, folder)
        try:
            yield process
        finally:
            await asyncio.to_thread(process.close)


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_find_tools(tmp_path: Path, mode: str) -> None:
    async with (
        running([*TURNS], tmp_path) as gateway,
        Client(f"{gateway.url}/mcp?mode=search", mode=mode) as client,
    ):
        listed = await client.list_tools()
        assert "find_tools" in [tool.name for tool in listed.tools]
        found = await client.call_tool("find_tools", {"query": "write down why E1042 came"})
    assert not found.is_error
    told: Any = found.structured_content
    assert told["tools"][0]["name"].startswith("notes__")
    assert told["tools"][0]["inputSchema"]["type"] == "object"
    assert told["stopped"] == "final_answer"
    assert [document["id"] for document in told["documents"]] == ["rollback.md#0"]


async def test_find_tools_as_toon_and_its_failures(tmp_path: Path) -> None:
    async with running([*TURNS, Turn(status=400)], tmp_path) as gateway:
        url = f"{gateway.url}/mcp"
        headers = {"X-Prefer-Format": "toon"}
        async with aiohttp.ClientSession(headers=headers) as http:
            talker = Talker(http, url, "modern")
            call: dict[str, Any] = {
                "name": "find_tools",
                "arguments": {"query": "write down a note"},
            }
            told = (await talker.tell("tools/call", call)).message["result"]
            text = told["content"][0]["text"]
            # Deep schemas gain little or nothing from TOON; then the text stays JSON.
            decoded = json.loads(text) if text[0] == "{" else toon_format.decode(text)
            assert decoded == told["structuredContent"]
            failed = (await talker.tell("tools/call", call)).message["result"]
            assert failed["isError"] is True
            assert failed["_meta"]["dev.armory/error"]["code"] == "backend"
            call = {"name": "find_tools", "arguments": {"query": ["one", "two"]}}
            refused = (await talker.tell("tools/call", call)).message["error"]
            assert refused["code"] == -32602


async def test_rest_mcp_and_command_line_tell_the_same_and_take_rejections(tmp_path: Path) -> None:
    async with (
        running([*TURNS] * 4, tmp_path) as gateway,
        aiohttp.ClientSession() as http,
    ):
        asked: dict[str, Any] = {"query": "write down why E1042 came", "mode": "agent"}
        async with http.post(f"{gateway.url}/v1/retrieve_tools", json=asked) as answer:
            told = await answer.json()
        assert (told["stopped"], told["error"], told["iterations"]) == ("final_answer", None, 2)
        (document,) = told["documents"]
        assert document["id"] == "rollback.md#0"
        assert "E1042" in document["text"]
        assert document["digest"] in {chunk["digest"] for chunk in told["chunks"]}
        asked["rejected"] = [document["digest"]]
        async with http.post(f"{gateway.url}/v1/retrieve_tools", json=asked) as answer:
            assert (await answer.json())["documents"] == []
        asked["rejected"] = ["nothing"]
        async with http.post(f"{gateway.url}/v1/retrieve_tools", json=asked) as answer:
            assert answer.status == 422
        talker = Talker(http, f"{gateway.url}/mcp", "modern")
        call: dict[str, Any] = {"name": "find_tools", "arguments": {"query": asked["query"]}}
        call["arguments"]["rejected"] = [document["digest"]]
        found = (await talker.tell("tools/call", call)).message["result"]["structuredContent"]
        assert (found["documents"], found["error"]) == ([], None)
        call["arguments"]["rejected"] = "nothing"
        refused = (await talker.tell("tools/call", call)).message["error"]
        assert (refused["code"], refused["data"]["parameter"]) == (-32602, "arguments.rejected")
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "armory.cli.main", "search", "--agent", "--json",
            asked["query"], "--url", gateway.url, "--rejected", document["digest"],
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"ARMORY_HOME": str(tmp_path), "PATH": "/usr/bin:/bin",
                 "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        said, problems = await done.communicate()
        assert done.returncode == 0, problems.decode()
        told = json.loads(said)
        assert (told["stopped"], told["documents"]) == ("final_answer", [])
        assert told["tools"][0]["name"].startswith("notes__")


async def test_an_embedding_api_that_is_away_keeps_no_gateway_from_starting(tmp_path: Path) -> None:
    async with ScriptedChat([*TURNS]) as chat:
        config = configuration(chat.url, tmp_path)
        config["tool_rag"] = {
            "embedding_model": "some-model",
            "embedding_provider": "openai",
            "openai": {"base_url": "http://127.0.0.1:9/v1", "dimensions": 8},
        }
        gateway = await asyncio.to_thread(partial(GatewayProcess, config, tmp_path, wait=False))
        try:
            async with aiohttp.ClientSession() as http:
                asked = {"query": "write down why E1042 came", "mode": "agent"}
                async with http.post(f"{gateway.url}/v1/retrieve_tools", json=asked) as answer:
                    told = await answer.json()
        finally:
            await asyncio.to_thread(gateway.close)
    assert told["stopped"] == "final_answer"
    assert [document["id"] for document in told["documents"]] == ["rollback.md#0"]
    failed = next(step["text"] for step in told["trace"] if step["kind"] == "observation")
    assert "vector_search failed" in failed


async def test_the_command_line_finds_tools_and_no_skills(tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "notes"
    skill.mkdir(parents=True)
    text = "---\nname: notes\ndescription: Write down a note\n---\nHow to.\n"
    (skill / "SKILL.md").write_text(text, encoding="utf-8")
    async with ScriptedChat([*TURNS]) as chat:
        config = configuration(chat.url, tmp_path)
        config["upstreams"]["own"] = {"skills": str(tmp_path / "skills")}
        path = tmp_path / "armory.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "armory.cli.main", "search", "--agent", "--json",
            "write down a note", "--config", str(path),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"ARMORY_HOME": str(tmp_path), "PATH": "/usr/bin:/bin",
                 "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        said, problems = await done.communicate()
    assert done.returncode == 0, problems.decode()
    names = [tool["name"] for tool in json.loads(said)["tools"]]
    assert names[0].startswith("notes__")
    assert not [name for name in names if "://" in name]
    with closing(sqlite3.connect(tmp_path / "cache" / "vectors.db")) as kept:
        wanted = (text_hash("Error E1042: roll back."),)
        (vectors,) = kept.execute("SELECT COUNT(*) FROM vectors WHERE hash = ?", wanted).fetchone()
    assert vectors == 1, "the document's vectors are kept for the next start"


@pytest.mark.parametrize("off", ["agent", "tool_rag"])
async def test_what_cannot_be_asked_is_told_before_an_upstream_is_started(
    tmp_path: Path, off: str
) -> None:
    started = tmp_path / "started"
    config = configuration("http://127.0.0.1:9/v1", tmp_path)
    config["upstreams"]["notes"]["args"] = ["-c", f"open({str(started)!r}, 'w')"]
    config[off] = {**config.get(off, {}), "enabled": False}
    path = tmp_path / "armory.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = ["search", "--agent", "write down a note", "--config", str(path)]
    done = await asyncio.to_thread(CliRunner().invoke, cli, command)
    assert isinstance(done.exception, ConfigError)
    assert done.exception.path == f"{off}.enabled"
    config[off]["enabled"] = True
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command += ["--rejected", "rollback.md#0"]
    done = await asyncio.to_thread(CliRunner().invoke, cli, command)
    assert isinstance(done.exception, InvalidRequest)
    assert done.exception.parameter == "rejected"
    assert not started.exists()


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_search_that_outlasts_the_gateway_is_answered(tmp_path: Path, accept: str) -> None:
    async with ScriptedChat([TURNS[0], Turn(fault="hang")]) as chat:
        config = configuration(chat.url, tmp_path) | {"server": {"drain_timeout_s": 1}}
        gateway = await asyncio.to_thread(GatewayProcess, config, tmp_path)
        try:
            async with aiohttp.ClientSession() as session:
                body = {"query": "write down a note", "mode": "agent"}
                url = f"{gateway.url}/v1/retrieve_tools"
                asking = session.post(url, json=body, headers={"Accept": accept})
                asked = asyncio.ensure_future(_answered(asking))
                await until(lambda: len(chat.requests) == 2)
                gateway.process.terminate()
                status, said = await asyncio.wait_for(asked, 30)
        finally:
            await asyncio.to_thread(gateway.close)
    streams = accept == "text/event-stream"
    assert status == (200 if streams else 503)
    told = json.loads(said.rpartition("event: error\ndata: ")[2] if streams else said)
    assert told["code"] == "backend"
    assert "server.drain_timeout_s" in told["detail"]


async def _answered(asking: Any) -> tuple[int, str]:
    async with asking as answer:
        return answer.status, await answer.text()


async def test_the_command_line_streams_the_trace(tmp_path: Path) -> None:
    async with ScriptedChat([*TURNS]) as chat:
        path = tmp_path / "armory.yaml"
        path.write_text(yaml.safe_dump(configuration(chat.url, tmp_path)), encoding="utf-8")
        command = [sys.executable, "-m", "armory.cli.main", "search", "--agent"]
        done = await asyncio.create_subprocess_exec(
            *command, "write down a note", "--config", str(path),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"ARMORY_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": "200",
                 "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        said, problems = await done.communicate()
        assert done.returncode == 0, problems.decode()
        shown = said.decode()
        order = ["Thought", "Action", "Observation", "Final Answer", "stopped: final_answer"]
        places = [shown.index(word) for word in order]
        assert places == sorted(places)
        assert '\nkeyword_search {"query": "E1042 rollback"' in shown, "as the model writes it"

        chat.requests.clear()
        done = await asyncio.create_subprocess_exec(
            *command, "write down a note", "--json", "--config", str(path),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"ARMORY_HOME": str(tmp_path), "PATH": "/usr/bin:/bin",
                 "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        said, problems = await done.communicate()
        told = json.loads(said)
        assert told["stopped"] == "final_answer"
        assert told["tools"][0]["inputSchema"]
