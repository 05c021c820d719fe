"""The main job over real processes: one URL, lists that answer the query, calls that arrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from mcp import Client, MCPError

from armory.testing.waiting import wait_until
from tests.e2e.conftest import ARMORY, ROOT

QUERY = "dev.armory/query"
pytestmark = pytest.mark.timeout(400)


def names(listed: Any) -> list[str]:
    return [tool.name for tool in listed.tools]


def fetch(url: str, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_a_query_about_time_lists_time_tools_and_calls_arrive(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], mode: str
) -> None:
    served = serve({"upstreams": demo_upstreams}).searchable()
    async with Client(served.url, mode=mode) as client:
        everything = names(await client.list_tools())
        assert len([name for name in everything if name.startswith("notes__")]) == 12
        assert {"time__get_current_time", "time__convert_time"} <= set(everything)

        meta: Any = {QUERY: "what time is it in Tokyo right now?"}
        wanted = names(await client.list_tools(meta=meta))
        assert "time__get_current_time" in wanted
        assert "search_tools" in wanted
        assert not [name for name in wanted if name.startswith("notes__")]

        answer = await client.call_tool("time__get_current_time", {"timezone": "Asia/Tokyo"})
        assert not answer.is_error
        assert answer.structured_content is not None
        assert answer.structured_content["timezone"] == "Asia/Tokyo"

        hidden = await client.call_tool("notes__add_note", {"title": "not listed, still callable"})
        assert not hidden.is_error


def test_health_readiness_discovery_and_metrics(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    served = serve({"upstreams": {**demo_upstreams, "gone": {"command": "no-such-program"}}})
    assert fetch(f"{served.base}/healthz") == (200, {"status": "ok"})
    served.ready()
    assert fetch(f"{served.base}/readyz") == (200, {"status": "ready"})
    status, ready = served.readiness()
    assert status == 200
    assert [text for text in ready["not_ready"] if "no-such-program" in text]
    assert ready["upstreams"]["time"]["state"] == "ready"
    status, document = fetch(f"{served.base}/.well-known/mcp.json")
    assert status == 200
    assert set(document["servers"]) == {"time", "notes", "gone"}
    with urllib.request.urlopen(f"{served.base}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    assert 'armory_upstream_up{server="time"} 1.0' in text
    assert 'armory_upstream_up{server="gone"} 0.0' in text


@pytest.mark.parametrize(("wanted", "status"), [("gateway", 200), ("any", 503), ("all", 503)])
def test_with_every_upstream_down_it_answers_and_a_key_makes_that_unready(
    serve: Callable[..., Any], wanted: str, status: int
) -> None:
    gone = {"gone": {"url": "http://127.0.0.1:9/mcp"}}
    served = serve({"server": {"readiness": wanted}, "upstreams": gone}).ready()
    found, body = served.readiness()
    assert found == status
    assert "gone" in body["not_ready"][0]


@pytest.mark.anyio
async def test_an_upstream_killed_in_mid_call_costs_that_call_alone_and_comes_back(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import os, time\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('slow', version='1')\n"
        "@server.tool()\n"
        "def pid() -> int:\n"
        "    'The process.'\n"
        "    return os.getpid()\n"
        "@server.tool()\n"
        "def wait(mark: str) -> str:\n"
        "    'Waits for a minute.'\n"
        "    open(mark, 'w').close()\n"
        "    time.sleep(60)\n"
        "    return 'done'\n"
        "server.run('stdio')\n"
    )
    upstreams = {**demo_upstreams, "slow": {"command": sys.executable, "args": [str(script)]}}
    served = serve({"upstreams": upstreams}).ready()
    mark = tmp_path / "waiting"
    async with Client(served.url) as client, anyio.create_task_group() as group:
        found = await client.call_tool("slow__pid", {})
        assert found.structured_content is not None
        results: list[Any] = []

        async def wait() -> None:
            results.append(await client.call_tool("slow__wait", {"mark": str(mark)}))

        group.start_soon(wait)
        with anyio.fail_after(30):
            while not mark.exists():  # noqa: ASYNC110 - another process makes the file
                await anyio.sleep(0.02)
        other = await client.call_tool("time__get_current_time", {"timezone": "UTC"})
        assert not other.is_error
        os.kill(found.structured_content["result"], signal.SIGKILL)
        with anyio.fail_after(30):
            while not results:  # noqa: ASYNC110 - the other task appends
                await anyio.sleep(0.02)
        assert results[0].is_error
        assert results[0].meta["dev.armory/error"]["code"] == "upstream_unavailable"
        assert results[0].meta["dev.armory/error"]["upstream"] == "slow"
        assert "slow__pid" in names(await client.list_tools())
        with anyio.fail_after(30):
            while (again := await client.call_tool("slow__pid", {})).is_error:  # noqa: ASYNC110
                await anyio.sleep(0.1)
        assert again.structured_content != found.structured_content


@pytest.mark.anyio
async def test_two_tokens_see_search_and_call_exactly_what_they_may(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    served = serve(
        {
            "upstreams": demo_upstreams,
            "security": {
                "tokens": {
                    "clock": {"token": "token-of-clock", "scopes": ["clock"]},
                    "writer": {"token": "token-of-writer", "scopes": ["writer"]},
                },
                "allow_anonymous": False,
                "policies": [
                    {"who": ["clock"], "allow": ["time__*"]},
                    {"who": ["writer"], "allow": ["notes__*"], "deny": ["notes__delete_*"]},
                ],
            },
        }
    ).searchable()

    async def seen(token: str, tool: str) -> tuple[set[str], set[str], str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(served.url, http_client=http)) as client,
        ):
            listed = {n for n in names(await client.list_tools()) if "__" in n}
            found = await client.call_tool(
                "search_tools", {"query": "the current time; delete a note", "top_k": 50}
            )
            assert found.structured_content is not None
            searched = {tool["name"] for tool in found.structured_content["tools"]}
            with pytest.raises(MCPError) as refused:
                await client.call_tool(tool, {"note_id": 1})
            return listed, searched, refused.value.error.message

    listed, searched, refusal = await seen("token-of-clock", "notes__get_note")
    assert listed == {"time__get_current_time", "time__convert_time"}
    assert searched <= listed
    unknown = (await seen("token-of-clock", "notes__no_such_note"))[2]
    hidden, _, near_hidden = refusal.partition("; nearest: ")
    absent, _, near_absent = unknown.partition("; nearest: ")
    assert hidden.replace("get_note", "X") == absent.replace("no_such_note", "X")
    assert "notes__" not in near_hidden + near_absent

    listed, searched, _ = await seen("token-of-writer", "notes__delete_note")
    assert len(listed) == 11
    assert "notes__delete_note" not in listed
    assert searched <= listed

    assert fetch(f"{served.base}/mcp", Accept="text/event-stream")[0] == 401


def test_a_changed_file_is_put_in_force_and_a_broken_one_changes_nothing(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "live.yaml"
    file.write_text(yaml.safe_dump({"upstreams": {"time": demo_upstreams["time"]}}))
    served = serve(file).ready()
    file.write_text(yaml.safe_dump({"upstreams": demo_upstreams, "agent": {"model": "x"}}))
    assert "upstreams" in served.wait_for(r'reloaded \S+: ([^"]*)')[1]
    served.wait_for(r"after a restart: agent")
    about = f"{served.base}/.well-known/mcp.json"
    wait_until(lambda: set(fetch(about)[1]["servers"]) == {"time", "notes"})
    file.write_text("upstreams: {time: {command: [}")
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("broken YAML.*configuration in force stays")
    assert [json.loads(line) for line in served.log], "no line of a piped log is anything but JSON"
    assert set(fetch(f"{served.base}/.well-known/mcp.json")[1]["servers"]) == {"time", "notes"}


@pytest.mark.skipif(sys.platform != "linux", reason="fills its standard error from outside")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_whoever_does_not_read_its_standard_error_stops_nothing(
    environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path, unbuffered: str
) -> None:
    file = tmp_path / "unread.yaml"
    one = {"time": demo_upstreams["time"]}
    file.write_text(yaml.safe_dump({"upstreams": one}))
    process = subprocess.Popen(
        [*ARMORY, "serve", "--config", str(file), "--port", "0"],
        env={**environ, "PYTHONUNBUFFERED": unbuffered},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process, process.stderr as log:  # pyright: ignore[reportOptionalContextManager]
        try:
            lines = iter(log.readline, "")
            url = next(json.loads(line)["url"] for line in lines if '"listening"' in line)
            next(line for line in lines if '"ready"' in line)
            about = url.removesuffix("mcp") + ".well-known/mcp.json"
            full = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
            for size in (4_096, 1):
                with suppress(BlockingIOError):
                    while True:
                        os.write(full, b"\n" * size)
            os.close(full)
            for upstreams in (demo_upstreams, one, demo_upstreams):  # each reload logs
                file.write_text(yaml.safe_dump({"upstreams": upstreams}))
                there = set(upstreams)
                wait_until(lambda: set(fetch(about)[1]["servers"]) == there)  # noqa: B023 # at once
        finally:
            process.terminate()
        events = [json.loads(line)["event"] for line in log if line.strip()]
        assert events.count("reloaded") >= 2
        assert process.wait(30) == 0


def test_sigterm_lets_the_call_in_flight_end(serve: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text(
        "import time\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('short', version='1')\n"
        "@server.tool()\n"
        "def wait(mark: str) -> str:\n"
        "    'Waits for two seconds.'\n"
        "    open(mark, 'w').close()\n"
        "    time.sleep(2)\n"
        "    return 'done'\n"
        "server.run('stdio')\n"
    )
    served = serve({"upstreams": {"short": {"command": sys.executable, "args": [str(script)]}}})
    served.ready()
    mark = tmp_path / "waiting"
    call = subprocess.Popen(
        [
            *(sys.executable, "-m", "armory.cli.main", "call", "--url", served.url),
            *("short__wait", json.dumps({"mark": str(mark)})),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(mark.exists)
    assert served.stop() == 0
    output, _ = call.communicate(timeout=60)
    assert call.returncode == 0
    assert "done" in output


@pytest.mark.parametrize("loop", ["auto", "asyncio"])
def test_names_that_hang_hold_up_no_other_upstream_and_not_the_end(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path, loop: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\n"
        "real = socket.getaddrinfo\n"
        "def lookup(host, *more, **named):\n"
        "    if str(host).endswith('.hangs.test'):\n"
        "        time.sleep(600)\n"
        "    return real(host, *more, **named)\n"
        "socket.getaddrinfo = lookup\n"
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    other = serve({"upstreams": {"time": demo_upstreams["time"]}}).ready()
    url = other.url.replace("127.0.0.1", "localhost")
    gone = {f"gone{i}": {"url": f"http://n{i}.hangs.test/mcp"} for i in range(20)}
    upstreams = {**gone, "good": {"url": url}}
    served = serve(
        {"server": {"event_loop": loop}, "upstreams": upstreams}, env={"PYTHONPATH": path}
    )
    wait_until(lambda: served.readiness()[1]["upstreams"]["good"]["state"] == "ready")
    told = [line for line in served.log if "gone0" in line and "still starting" not in line]
    assert not told, "it is still looked up"
    assert served.stop(timeout_s=15) == 0
