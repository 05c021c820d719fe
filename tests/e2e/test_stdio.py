"""`armory serve --stdio`: the gateway for clients that only spawn commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, StdioServerParameters, stdio_client

from tests.e2e.conftest import ARMORY, ROOT

pytestmark = pytest.mark.timeout(400)
META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


def spawned(environ: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """A gateway on pipes, as a client starts it."""
    return subprocess.Popen(
        [*ARMORY, "serve", "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd=folder,
    )


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_spawns_the_gateway_lists_and_calls(
    mode: str, environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    gateway = StdioServerParameters(
        command=sys.executable,
        args=["-m", "armory.cli.main", "serve", "--stdio"],
        env=environ,
        cwd=tmp_path,
    )
    async with Client(stdio_client(gateway), mode=mode) as client:
        meta: Any = {"dev.armory/query": "what time is it in Tokyo?"}
        names = [tool.name for tool in (await client.list_tools(meta=meta)).tools]
        assert "time__get_current_time" in names
        assert not [name for name in names if name.startswith("notes__")]
        answer = await client.call_tool("time__get_current_time", {"timezone": "UTC"})
        assert answer.structured_content is not None
        assert answer.structured_content["timezone"] == "UTC"


def test_a_client_that_reads_nothing_holds_nothing_up_but_itself(
    environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    process = spawned(environ, tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin as stdin, process.stdout as stdout:
        try:
            for number in range(2_000):
                line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})
                stdin.write(line.encode() + b"\n")
            stdin.flush()
            answers = [json.loads(stdout.readline())["id"] for _ in range(2_000)]
            assert sorted(answers) == list(range(2_000))
            wanted = {"jsonrpc": "2.0", "method": "tools/list", "params": META}
            for number in range(500):  # half a megabyte and more of answers
                stdin.write(json.dumps({**wanted, "id": number}).encode() + b"\n")
            stdin.flush()
            stdout.readline()
        finally:
            process.terminate()
            assert process.wait(30) == 0, "what was not read was not waited for"


@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
def test_a_file_is_served_to_its_end_and_answered_whole(
    event_loop: str, environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    written = {"server": {"event_loop": event_loop}, "upstreams": demo_upstreams}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(written))
    wanted = {"jsonrpc": "2.0", "method": "tools/list", "params": META}
    lines = [json.dumps({**wanted, "id": number}) for number in range(100)]
    for given, answers in ((lines, 100), ([], 0)):
        asked, answered = tmp_path / "asked.jsonl", tmp_path / "answered.jsonl"
        asked.write_text("\n".join(given))
        source = asked if given else Path(os.devnull)
        with source.open("rb") as stdin, answered.open("wb") as out:
            done = subprocess.run(
                [*ARMORY, "serve", "--stdio"],
                stdin=stdin,
                stdout=out,
                stderr=subprocess.PIPE,
                env=environ,
                cwd=tmp_path,
                timeout=60,
            )
        assert done.returncode == 0, done.stderr.decode()
        found = [json.loads(line) for line in answered.read_bytes().splitlines()]
        assert sorted(answer["id"] for answer in found) == list(range(answers))
        assert all(answer["result"]["tools"] for answer in found)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_user_that_nothing_is_narrowed_to_is_told_once(
    enabled: bool, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"accounts": {"enabled": enabled}}))
    done = subprocess.run(
        [*ARMORY, "serve", "--stdio"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**environ, "AGENT_COREX_USER_ID": "ann"},
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    told = [line for line in done.stderr.splitlines() if "AGENT_COREX_USER_ID" in line]
    assert len(told) == (0 if enabled else 1)
    assert all("accounts.enabled" in line for line in told)


CLOSING = ("sh", "-c", 'eval "shift; exec \\"\\$@\\" $1"', "sh")


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as shells do")
@pytest.mark.parametrize(("closed", "named"), [("<&-", "input"), (">&-", "output")])
def test_without_a_client_it_says_so(
    closed: str, named: str, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text("tool_rag: {enabled: false}")
    ended = subprocess.run(
        [*CLOSING, closed, *ARMORY, "serve", "--stdio"],
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert f"standard {named} is closed" in ended.stderr


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as shells do")
@pytest.mark.parametrize(
    ("closed", "arguments", "code", "said"),
    [
        (">&-", ("version", "--json"), 0, ""),
        (">&-", ("serve", "--json", "--config", "nowhere.yaml"), 2, ""),
        (">&-", ("serve", "--port", "0"), 2, "observability.audit.to: standard output is closed"),
        ("<&-", ("call", "up__x", "-"), 2, "is not valid JSON"),
    ],
    ids=["an answer", "a failure", "an audit", "an argument"],
)
def test_a_command_gets_along_without_standard_streams(
    closed: str,
    arguments: tuple[str, ...],
    code: int,
    said: str,
    environ: dict[str, str],
    tmp_path: Path,
) -> None:
    (tmp_path / "armory.yaml").write_text("observability: {audit: {to: stdout}}")
    ended = subprocess.run(
        [*CLOSING, closed, *ARMORY, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert "AttributeError" not in ended.stderr
    assert said in " ".join(ended.stderr.split())


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as shells do")
def test_over_http_it_needs_no_standard_input(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "armory.yaml").write_text("tool_rag: {enabled: false}")
    with subprocess.Popen(
        [*CLOSING, "<&-", *ARMORY, "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=tmp_path,
    ) as process:
        assert process.stderr is not None
        log = iter(process.stderr)
        assert any('"ready"' in line for line in log)
        process.terminate()
        rest = list(log)
        assert process.wait(60) == 0, rest


HANGS = {
    "command": sys.executable,
    "args": ["-m", "armory.testing.upstreams.stdio"],
    "env": {"PYTHONPATH": str(ROOT)},
}


def test_a_call_that_outlasts_the_end_of_input_is_answered(
    environ: dict[str, str], tmp_path: Path
) -> None:
    config = {"server": {"drain_timeout_s": 1}, "upstreams": {"up": HANGS}}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    with spawned(environ, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        params = {"name": "up__hang", "arguments": {}, **META}
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.close()
        try:
            told = json.loads(process.stdout.readline())
            assert (told["id"], told["error"]["code"]) == (7, 1004)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_for_a_client_that_is_gone_no_call_goes_on(environ: dict[str, str], tmp_path: Path) -> None:
    config = {"server": {"drain_timeout_s": 600}, "upstreams": {"up": HANGS}}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    with spawned(environ, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        call = {"name": "up__hang", "arguments": {}, **META}
        for message in ({"method": "tools/call", "params": call}, {"method": "ping"}):
            line = json.dumps({"jsonrpc": "2.0", "id": message["method"], **message})
            process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == "ping"
        process.stdout.close()
        process.stdin.close()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
