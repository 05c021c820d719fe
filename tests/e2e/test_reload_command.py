"""`armory reload` against a gateway that runs: what it says beforehand is what it does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession
from click.testing import CliRunner
from mcp import Client

from armory.cli.gateway.running import gateways
from armory.cli.main import cli
from armory.config import load_file
from armory.domain.principal import ANONYMOUS
from armory.domain.results import CallOutcome
from armory.errors import ArmoryError
from armory.observability.redaction import redacted
from armory.runtime import open_runtime
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import wait_until
from tests.e2e.conftest import Command, Serve

_SERVER = """
import sys
from pathlib import Path
from mcp.server.mcpserver import MCPServer
server = MCPServer("greeter")
@server.tool(description=Path(sys.argv[1]).read_text())
def hello() -> str:
    return "hi"
server.run()
"""


def test_a_reload_that_is_asked_for_is_logged(
    serve: Serve, armory: Command, tmp_path: Path
) -> None:
    file = tmp_path / "live.yaml"
    file.write_text("{}")
    served = serve(file).ready()
    file.write_text("{agent: {model: x}, sets: {}}")
    served.wait_for(r"after a restart: agent")  # as soon as the file has changed
    assert armory("reload", "--dry-run").returncode == 0
    done = armory("reload", "--json")
    (answer,) = json.loads(done.stdout)["gateways"]
    assert answer["needs_restart"] == ["agent"]
    served.wait_for(r"reloaded \S+: nothing")
    served.wait_for(r"after a restart: agent")


def test_a_refused_file_is_told_until_it_holds(
    serve: Serve, armory: Command, tmp_path: Path
) -> None:
    file = tmp_path / "live.yaml"
    rest = "tool_rag: {enabled: false}\n"  # else, now and then, tools are still being embedded
    file.write_text(rest)
    (tmp_path / ".env").write_text("PORT=not-to-be-told\n")
    served = serve(file).ready()

    def refused() -> str:
        with urllib.request.urlopen(f"{served.base}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        return re.findall(r"^armory_configuration_refused (\S+)$", text, re.MULTILINE)[0]

    assert refused() == "0.0"
    file.write_text("server: {port: '${PORT}'}\nsets: {ops: {servers: [nope]}}\n" + rest)
    served.wait_for(r"The configuration in force stays")
    assert refused() == "1.0"
    status, body = served.readiness()
    (told,) = body["not_ready"]
    assert (status, body["status"]) == (200, "ready")
    assert told.startswith(f"configuration: {file} is refused, an earlier one is in force: line 1")
    assert "server.port" in told
    assert "${PORT}" in told
    assert told.endswith("; and 1 more")
    assert "not-to-be-told" not in told
    assert told in armory("status").stdout
    with urllib.request.urlopen(f"{served.base}/readyz", timeout=20) as answer:
        assert json.load(answer) == {"status": "ready"}

    file.write_text(rest + "# again")
    assert armory("reload").returncode == 0
    served.wait_for("configuration_holds_again")
    assert refused() == "0.0"
    assert served.readiness()[1]["not_ready"] == []
    file.unlink()
    asked = armory("reload", "--json")
    error = json.loads(asked.stdout)["error"]
    assert (asked.returncode, error["exit_code"], error["code"]) == (2, 2, "config")
    assert refused() == "1.0"
    assert "live.yaml" in served.readiness()[1]["not_ready"][0]
    file.write_text("\n")  # as if nothing were wanted any more, which has to be said
    assert "live.yaml is empty" in armory("reload").stderr
    assert "upstreams: {}" in served.readiness()[1]["not_ready"][0]


def test_a_file_is_tried_before_it_takes_the_place_of_the_other(
    serve: Serve, armory: Command, tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    served = serve({"upstreams": {"notes": demo_upstreams["notes"]}}).ready()
    new = tmp_path / "new.yaml"
    new.write_text(yaml.safe_dump({"upstreams": {"more": demo_upstreams["notes"]}}))
    done = armory("reload", "--dry-run", "new.yaml", "--json")
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)["gateways"]
    assert (answer["added"], answer["removed"]) == (["more"], ["notes"])
    assert "notes" in armory("status").stdout
    assert served.base in answer["url"]
    new.write_text("upstreams: {notes: {comand: x}}")
    wrong = armory("reload", "--dry-run", "new.yaml")
    assert wrong.returncode == 2
    assert "new.yaml: 1 problem" in wrong.stderr
    assert "line 1: upstreams.notes.comand: unknown key" in wrong.stderr
    assert armory("reload", "new.yaml").returncode == 2


def test_what_is_approved_is_there_after_a_reload(
    serve: Serve, armory: Command, tmp_path: Path
) -> None:
    script, says = tmp_path / "server.py", tmp_path / "says"
    script.write_text(_SERVER)
    says.write_text("Greets.")
    upstream = {"command": sys.executable, "args": [str(script), str(says)]}
    config = {"upstreams": {"up": upstream}, "security": {"pinning": "block"}}
    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump(config))
    serve(file).ready().stop()
    says.write_text("Greets, and tells everybody.")
    served = serve(file).ready()

    def listed() -> bool:
        return "up__hello" in armory("tools", "--url", served.url).stdout

    assert not listed()
    done = armory("approve", "up__hello")
    assert "approved: up__hello" in done.stdout
    assert "note: a gateway that runs takes it over with `armory reload`" in done.stderr
    assert armory("reload").returncode == 0
    wait_until(listed, "what was approved is not listed")


@pytest.mark.anyio
async def test_a_dry_run_says_what_a_reload_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ARMORY_TOKEN", raising=False)
    path = tmp_path / "armory.yaml"

    def write(drain_s: int, **upstreams: Any) -> None:
        server = {"port": 0, "drain_timeout_s": drain_s}
        blocks = {"server": server, "tool_rag": {"enabled": False}, "upstreams": upstreams}
        path.write_text(yaml.safe_dump(blocks))

    async def reload(*arguments: str) -> Any:
        found = await asyncio.to_thread(CliRunner().invoke, cli, ["reload", "--json", *arguments])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return json.loads(found.stdout)["gateways"][0]

    async with HttpUpstream() as one, HttpUpstream() as other:
        write(5, same={"url": one.url}, changed={"url": other.url}, gone={"url": one.url})
        async with open_runtime(load_file(path), address=("127.0.0.1", 0)) as runtime:
            await runtime.ready()
            before = {key: runtime.pool.upstream(key) for key in runtime.pool.servers()}
            write(6, same={"url": one.url}, changed={"url": one.url}, new={"url": other.url})
            planned = await reload("--dry-run")
            assert list(before) == runtime.pool.servers()
            assert all(runtime.pool.upstream(key) is was for key, was in before.items())
            expected = {
                "applied": ["upstreams"],
                "needs_restart": ["server"],
                "kept": ["same"],
                "restarted": ["changed"],
                "added": ["new"],
                "removed": ["gone"],
            }
            assert {key: planned[key] for key in expected} == expected
            runtime.figures.metrics.called(
                ANONYMOUS, CallOutcome("gone__tool", ok=True, latency_ms=1.0)
            )
            done = await reload()
            assert b'server="gone"' not in runtime.figures.metrics.text()
            assert {key: done[key] for key in expected} == expected
            assert sorted(runtime.pool.servers()) == ["changed", "new", "same"]
            assert runtime.pool.upstream("same") is before["same"]
            assert runtime.pool.upstream("changed") is not before["changed"]
            path.write_text("upstreams: 7")
            with pytest.raises(ArmoryError, match="upstreams"):
                await reload()
            assert runtime.pool.upstream("same") is before["same"]


@pytest.mark.anyio
async def test_what_takes_a_restart_is_not_half_in_force_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    path = tmp_path / "armory.yaml"

    async with HttpUpstream() as one:

        def write(server: dict[str, Any], rag: dict[str, Any], **blocks: Any) -> None:
            both = {"server": {"port": 0, **server}, "tool_rag": {"embedding_model": "none", **rag}}
            path.write_text(
                yaml.safe_dump({**both, "upstreams": {"up": {"url": one.url}}, **blocks})
            )

        write({}, {})
        async with open_runtime(load_file(path), address=("127.0.0.1", 0)) as runtime:
            await runtime.ready()
            assert runtime.listening is not None
            base = runtime.listening.url

            async def seen() -> tuple[Any, list[str]]:
                async with ClientSession() as session, Client(f"{base}/mcp") as client:
                    async with session.get(f"{base}/.well-known/mcp.json") as answer:
                        document = await answer.json()
                    return document, [tool.name for tool in (await client.list_tools()).tools]

            before, upstream = await seen(), runtime.pool.upstream("up")
            limits = {"stdio_line_bytes": 1 << 20, "query_chars": 10}
            write({"base_path": "/on", "experimental": ["groups"], "limits": limits}, {})
            report = await runtime.rereading.read()
            assert (report.needs_restart, report.applied, report.kept) == (["server"], [], ["up"])
            assert await seen() == before
            assert runtime.pool.upstream("up") is upstream
            write({}, {}, agent={"enabled": True})
            assert (await runtime.rereading.read()).needs_restart == ["agent"]
            assert await seen() == before
            write({}, {"enabled": False, "max_tools": 4})
            report = await runtime.rereading.read()
            assert (report.needs_restart, report.applied) == (["tool_rag.enabled"], ["tool_rag"])
            assert await seen() == before
            assert runtime.loaded.config.tool_rag.max_tools == 4


@pytest.mark.anyio
async def test_however_much_is_tried_secrets_in_force_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    path = tmp_path / "armory.yaml"

    def write(token: str) -> None:
        upstream = {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Token": token}}
        rag = {"embedding_model": "none"}
        path.write_text(yaml.safe_dump({"tool_rag": rag, "upstreams": {"up": upstream}}))

    write("the-first-one")
    async with open_runtime(load_file(path)) as runtime:
        write("the-one-in-force")
        await runtime.rereading.read()
        for number in range(30):
            write(f"only-tried-{number}")
            await runtime.rereading.read(dry_run=True)
        assert redacted("it is the-one-in-force") == "it is ***"


@pytest.mark.anyio
async def test_of_two_reloads_at_once_the_newer_file_stays_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ARMORY_TOKEN", raising=False)
    path, variables = tmp_path / "armory.yaml", tmp_path / ".env"

    def write(most: int) -> None:
        rag = {"enabled": False, "max_tools": most}
        path.write_text(yaml.safe_dump({"server": {"port": 0}, "tool_rag": rag}))

    async def reload() -> None:
        (gateway,) = gateways(None, None)
        await asyncio.to_thread(gateway.get, "/v1/reload", method="POST")

    write(3)
    async with open_runtime(load_file(path), address=("127.0.0.1", 0)) as runtime:
        await runtime.ready()
        write(4)
        os.mkfifo(variables)
        first = asyncio.create_task(reload())
        held = await asyncio.to_thread(variables.open, "w")  # it has the file, and reads this
        variables.unlink()
        write(5)
        second = asyncio.create_task(reload())
        await asyncio.wait((second,), timeout=1)  # where it does not wait for the first
        held.close()
        await asyncio.gather(first, second)
        assert runtime.loaded.config.tool_rag.max_tools == 5
