"""Two replicas on one Redis: a session is served by either, until its owner dies."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.options import CALIBRATION
from armory.retrieval.scoring.calibration import SHIPPED, VERSION, read_calibrations
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.servers import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.timeout(180)]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
CALL = {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}}


def post(
    url: str, method: str, params: dict[str, Any], session: str | None = None, id: int | None = 1
) -> tuple[int, str | None, Any]:
    """(status, session id, answer) of one legacy POST."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if id is not None:
        message["id"] = id
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if session is not None:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            body = response.read()
            return response.status, response.headers.get("Mcp-Session-Id"), body and answer(body)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None, error.read()


def answer(body: bytes) -> Any:
    if body.lstrip().startswith(b"{"):
        return json.loads(body)
    data = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    return next(m for m in map(json.loads, filter(bytes.strip, data)) if "id" in m)


@pytest.mark.parametrize("base_path", ["", "/tools"])
def test_a_session_is_served_by_either_replica_until_its_owner_dies(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], redis: RedisServer, base_path: str
) -> None:
    config = {
        "server": {"base_path": base_path},
        "upstreams": {"time": demo_upstreams["time"]},
        "storage": {"redis": redis.url},
    }
    owner = serve(config).ready()
    other = serve(config).ready()
    status, session, _ = post(owner.url, "initialize", HELLO)
    assert (status, session is not None) == (200, True)
    assert post(other.url, "notifications/initialized", {}, session, None)[0] == 202
    for served in (owner, other):
        status, _, reply = post(served.url, "tools/call", CALL, session)
        assert status == 200
        assert reply["result"].get("isError") is not True, reply
    assert post(other.url, "tools/list", {}, "no-such-session")[0] == 404

    owner.kill()
    assert post(other.url, "tools/list", {}, session)[0] == 404
    status, anew, _ = post(other.url, "initialize", HELLO)
    assert status == 200
    assert post(other.url, "tools/list", {}, anew)[0] == 200


def test_what_was_tuned_counts_at_once_after_a_restart(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], redis: RedisServer
) -> None:
    config = {"upstreams": {"time": demo_upstreams["time"]}, "storage": {"redis": redis.url}}

    def relevance(gateway: Any) -> float:
        url = f"{gateway.base}/retrieve_tools?query=the+time+in+Tokyo"
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.load(response)["tools"][0]["relevance"]

    before = serve(config).searchable()
    shown = relevance(before)
    before.stop()
    embedder = EmbeddedEmbedder().identity
    constants = read_calibrations(SHIPPED.read_text())["semantic"][embedder]
    tuned = {**constants, "miss_cost": constants["miss_cost"] / 100}
    fitted = {"version": VERSION, "rankers": {"semantic": {embedder: tuned}}}
    (before.home / CALIBRATION).write_text(json.dumps(fitted))
    assert relevance(serve(config).searchable()) < shown


def metric(gateway: Any, name: str) -> float:
    with urllib.request.urlopen(f"{gateway.base}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def least_replicas(redis: RedisServer, number: int) -> None:
    """With fewer replicas of its own, Redis is read and takes nothing: as one that is full."""
    with Redis.from_url(redis.url) as told:
        told.config_set("min-replicas-to-write", number)


AWAY: dict[str, tuple[Callable[[RedisServer], None], Callable[[RedisServer], None]]] = {
    "killed": (RedisServer.kill, RedisServer.start),
    "hanging": (RedisServer.pause, RedisServer.resume),
    "NOREPLICAS": (partial(least_replicas, number=1), partial(least_replicas, number=0)),
}


@pytest.mark.parametrize("way", AWAY)
def test_readiness_tells_of_a_redis_that_is_away(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], redis: RedisServer, way: str
) -> None:
    config = {
        "upstreams": {"time": demo_upstreams["time"]},
        "storage": {"redis": redis.url},
        "tool_rag": {"enabled": False},
    }
    gateway = serve(config).ready()
    assert gateway.readiness()[1]["not_ready"] == []
    assert metric(gateway, "armory_shared_store_up") == 1
    go, come_back = AWAY[way]
    go(redis)
    gateway.wait_for("shared_store_away")
    status, told = gateway.readiness()
    assert (status, told["status"]) == (200, "ready"), "its own clients are served on"
    (why,) = told["not_ready"]
    assert why.startswith("shared store: Redis failed (" + (way if way.isupper() else ""))
    assert "storage.redis" in why
    assert metric(gateway, "armory_shared_store_up") == 0
    assert post(gateway.url, "initialize", HELLO)[0] in (200, 503)
    come_back(redis)
    gateway.wait_for("shared_store_back")
    assert gateway.readiness()[1]["not_ready"] == []
    assert metric(gateway, "armory_shared_store_up") == 1


SCRIPTED = {
    "command": sys.executable,
    "args": ["-m", "armory.testing.upstreams.stdio", "--era", "legacy"],
    "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
}
ELICIT = {"elicitation": {"form": {}}}


def modern(url: str, tool: str, **more: Any) -> tuple[int, Any]:
    """(status, answer) of one modern call."""
    params = {"name": f"up__{tool}", "arguments": {}, **more}
    body = modern_body(1, "tools/call", params, capabilities=ELICIT)
    headers = {**modern_headers(body), "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, answer(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, answer(error.read())


def answering(asked: Any) -> dict[str, Any]:
    """The retry of a call that asked."""
    (key,) = asked["inputRequests"]
    answers = {key: {"action": "decline"}}
    return {"requestState": asked["requestState"], "inputResponses": answers}


def test_a_parked_call_goes_on_at_either_replica_until_its_owner_dies(
    serve: Callable[..., Any], redis: RedisServer
) -> None:
    config = {"upstreams": {"up": SCRIPTED}, "storage": {"redis": redis.url}}
    owner = serve(config).ready()
    other = serve(config).ready()
    for served in (owner, other):
        _, first = modern(owner.url, "elicit")
        assert first["result"]["resultType"] == "input_required"
        status, done = modern(served.url, "elicit", **answering(first["result"]))
        assert (status, done["result"]["structuredContent"]["result"]["action"]) == (200, "decline")
        # Whoever answers it, it is answered once.
        status, again = modern(other.url, "elicit", **answering(first["result"]))
        assert (status, again["error"]["code"]) == (400, -32602)

    _, parked = modern(owner.url, "elicit")
    owner.kill()  # it shows signs of life in Redis for a while yet
    status, lost = modern(other.url, "elicit", **answering(parked["result"]))
    assert (status, lost["error"]["code"]) == (400, -32602)
    assert lost["error"]["data"] == {"reason": "invalid_request_state"}
    _, anew = modern(other.url, "elicit")
    status, done = modern(other.url, "elicit", **answering(anew["result"]))
    assert (status, done["result"]["content"][0]["text"]) == (200, "asked")


def test_a_call_that_another_replica_goes_on_with_is_in_the_audit_there(
    serve: Callable[..., Any], redis: RedisServer, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}.jsonl" for name in ("owner", "other")]
    config = {"upstreams": {"up": SCRIPTED}, "storage": {"redis": redis.url}}
    owner, other = (
        serve({**config, "observability": {"audit": {"to": str(file)}}}).ready() for file in files
    )
    for answered in (True, False):
        _, first = modern(owner.url, "elicit")
        if not answered:
            assert owner.stop() == 0
        status, _ = modern(other.url, "elicit", **answering(first["result"]))
        assert status == (200 if answered else 400)
    assert other.stop() == 0
    records = [list(map(json.loads, file.read_text().splitlines())) for file in files]
    told = [[r["outcome"] for r in of if r["method"] == "tools/call"] for of in records]
    assert told == [["ok", "ok", "ok"], ["refused"]]


def test_a_call_passed_on_ends_when_its_owner_dies_in_the_middle(
    serve: Callable[..., Any], redis: RedisServer
) -> None:
    config = {"upstreams": {"up": SCRIPTED}, "storage": {"redis": redis.url}}
    owner = serve(config).ready()
    other = serve(config).ready()
    _, session, _ = post(owner.url, "initialize", HELLO)
    outcome: list[Any] = []

    def call() -> None:
        try:
            hang = {"name": "up__hang", "arguments": {}}
            outcome.append(post(other.url, "tools/call", hang, session)[0])
        except OSError as error:
            outcome.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    for _ in range(200):
        _, _, reply = post(
            owner.url, "tools/call", {"name": "up__report", "arguments": {}}, session
        )
        if reply["result"]["structuredContent"]["started"]:
            break
    else:
        raise AssertionError("the call never arrived")
    owner.kill()
    calling.join(30)
    assert not calling.is_alive()
    assert outcome == [404] or isinstance(outcome[0], OSError)
    assert post(other.url, "tools/list", {}, session)[0] == 404
    assert post(other.url, "initialize", HELLO)[0] == 200


def test_a_batch_that_a_replica_passes_on_is_answered_request_by_request_where_that_one_ends(
    serve: Callable[..., Any], redis: RedisServer
) -> None:
    upstreams = {"up": SCRIPTED}
    config = {
        "server": {"drain_timeout_s": 1}, "upstreams": upstreams, "storage": {"redis": redis.url}
    }  # fmt: skip
    owner, other = serve(config).ready(), serve(config).ready()
    revision = {"protocolVersion": "2025-03-26"}
    _, session, _ = post(owner.url, "initialize", {**HELLO, **revision})
    call = {"method": "tools/call", "params": {"name": "up__hang", "arguments": {}}}
    batch: list[Any] = [{"jsonrpc": "2.0", "id": id, **call} for id in (7, "b")]
    batch.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Session-Id": session or "",
    }
    asked = urllib.request.Request(other.url, json.dumps(batch).encode(), headers)
    told: list[Any] = []

    def send() -> None:
        with urllib.request.urlopen(asked, timeout=30) as answered:
            told.extend(json.loads(answered.read()))

    calling = threading.Thread(target=send)
    calling.start()
    report = {"name": "up__report", "arguments": {}}
    for _ in range(200):
        _, _, reply = post(owner.url, "tools/call", report, session)
        if reply["result"]["structuredContent"]["started"]:
            break
    assert other.stop() == 0
    calling.join(30)
    assert [(reply["id"], reply["error"]["code"]) for reply in told] == [(7, 1004), ("b", 1004)]


def test_what_a_replica_passes_on_ends_properly_where_that_one_ends(
    serve: Callable[..., Any], redis: RedisServer
) -> None:
    """It is answered under its own id; an event stream that has begun goes on at the owner."""
    config = {
        "server": {"drain_timeout_s": 1},
        "upstreams": {"up": SCRIPTED},
        "storage": {"redis": redis.url},
    }
    owner, other = serve(config).ready(), serve(config).ready()
    sessions: list[str] = []
    for _ in range(2):
        _, session, _ = post(owner.url, "initialize", {**HELLO, "capabilities": ELICIT})
        assert session is not None
        sessions.append(session)
    told: list[Any] = []

    def call() -> None:
        hang = {"name": "up__hang", "arguments": {}}
        told.append(post(other.url, "tools/call", hang, sessions[0], 7))

    calling = threading.Thread(target=call)
    calling.start()
    message = {"jsonrpc": "2.0", "id": 8, "method": "tools/call"}
    ask = json.dumps({**message, "params": {"name": "up__elicit", "arguments": {}}})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Session-Id": sessions[1],
        "MCP-Protocol-Version": "2025-11-25",
    }
    request = urllib.request.Request(other.url, ask.encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as begun:
        lines = [begun.readline().decode()]
        while not lines[-1].startswith("data: {"):
            lines.append(begun.readline().decode())
        assert other.stop() == 0
        assert begun.read().strip() == b""  # raises where it was cut
    calling.join(30)
    ((status, _, reply),) = told
    assert (status, reply["id"], reply["error"]["code"]) == (200, 7, 1004)
    last = [line[3:].strip() for line in lines if line.startswith("id:")][-1]
    question = json.loads(lines[-1].removeprefix("data: "))
    said = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
    data = json.dumps(said).encode()
    with urllib.request.urlopen(urllib.request.Request(owner.url, data, headers), timeout=30) as ok:
        assert ok.status == 202
    again = {**headers, "Accept": "text/event-stream", "Last-Event-ID": last}
    resumed = urllib.request.Request(owner.url, headers=again)
    with urllib.request.urlopen(resumed, timeout=30) as events:
        assert answer(events.read())["result"]["content"][0]["text"] == "asked"
