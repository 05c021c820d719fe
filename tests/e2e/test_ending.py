"""How a gateway leaves a balancer, and what it serves while its database is away."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.servers import PostgresServer, RedisServer, postgres_folder, redis_binary
from armory.testing.waiting import wait_until
from tests.e2e.test_serve import fetch

pytestmark = pytest.mark.timeout(180)
WITHIN_S = 30.0
MARGIN_S = 15.0
"""What whoever supervises a gateway is to give it beyond `server.drain_timeout_s`."""


def call(connection: http.client.HTTPConnection) -> tuple[int, str | None]:
    """(status, `Connection` header) of one call on a connection that is kept."""
    body = modern_body(1, "tools/call", {"name": "notes__list_notes", "arguments": {}})
    headers = {**modern_headers(body), "Content-Type": "application/json"}
    connection.request("POST", "/mcp", json.dumps(body), headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status, answer.headers.get("Connection")


def test_after_sigterm_requests_are_served_for_a_while_on_connections_that_end(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    upstreams = {"notes": demo_upstreams["notes"]}
    served = serve({"server": {"drain_delay_s": 4}, "upstreams": upstreams}).ready()
    where = urlsplit(served.base).netloc
    kept = http.client.HTTPConnection(where, timeout=WITHIN_S)
    assert call(kept) == (200, None)
    served.process.send_signal(signal.SIGTERM)
    served.wait_for("ends in 4 s")
    assert call(kept) == (200, "close")
    anew = http.client.HTTPConnection(where, timeout=WITHIN_S)
    assert call(anew) == (200, "close")
    status, body = served.readiness()
    assert (status, body["not_ready"][0]) == (503, "shutting down")
    assert served.stop() == 0


def test_metrics_have_a_port_and_a_token_of_their_own(serve: Callable[..., Any]) -> None:
    served = serve(
        {"server": {"metrics": {"port": 0, "token": "of-metrics"}, "base_path": "/tools"}}
    )
    port = next(json.loads(line)["port"] for line in served.log if '"metrics_listening"' in line)
    apart = f"http://127.0.0.1:{port}"
    assert fetch(f"{apart}/healthz") == (200, {"status": "ok"})
    for url, headers, expected in (
        (f"{apart}/metrics", {}, 401),
        (f"{apart}/metrics", {"Authorization": "Bearer of-others"}, 401),
        (f"{served.base}/metrics", {"Authorization": "Bearer of-metrics"}, 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=WITHIN_S)
        refused.value.close()
        assert refused.value.code == expected
    asked = urllib.request.Request(
        f"{apart}/metrics", headers={"Authorization": "Bearer of-metrics"}
    )
    with urllib.request.urlopen(asked, timeout=WITHIN_S) as answer:
        assert b"armory_client_sessions" in answer.read()


def metrics(base: str) -> str:
    with urllib.request.urlopen(f"{base}/metrics", timeout=WITHIN_S) as answer:
        return answer.read().decode()


@pytest.mark.postgres
def test_a_database_that_is_away_at_the_start_is_waited_for(serve: Callable[..., Any]) -> None:
    if postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed")
    database = PostgresServer()
    try:
        database.stop()
        served = serve(
            {
                "server": {"host": "0.0.0.0"},
                "accounts": {"enabled": True},
                "security": {"tokens": {"main": {"token": "token-of-main"}}},
                "storage": {"url": database.url()},
            }
        ).ready()
        # the URL that works here, and that it is not the only one
        assert any("(bound to 0.0.0.0:" in line for line in served.log), served.log
        status, body = served.readiness()
        assert status == 503
        assert f"127.0.0.1:{database.port}" in body["not_ready"][0]
        assert len(body["not_ready"]) == 1
        database.start()
        ready = f"{served.base}/readyz"
        wait_until(lambda: fetch(ready)[0] == 200, served.log, WITHIN_S)
        # and one that goes away later is told of, while what needs no account is served
        for up in (0, 1):
            database.start() if up else database.stop()
            line = f"armory_database_up {up}.0"
            wait_until(lambda: line in metrics(served.base), served.log, WITHIN_S)  # noqa: B023
            status, body = served.readiness()
            told = [why for why in body["not_ready"] if why.startswith("database: ")]
            assert (status, len(told)) == (200, 1 - up)
        # so is one that is slow, before it is given up
        database.pause()
        slow = "database: it answers slowly"
        wait_until(lambda: slow in str(served.readiness()[1]["not_ready"]), served.log, WITHIN_S)
        database.resume()
        wait_until(lambda: not served.readiness()[1]["not_ready"], served.log, WITHIN_S)
    finally:
        database.remove()


@pytest.mark.postgres
@pytest.mark.parametrize("way", ["stop", "pause"])
def test_the_end_waits_briefly_for_a_database_that_is_away_and_tells_what_is_lost(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], way: str
) -> None:
    if postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed")
    database = PostgresServer()
    try:
        served = serve(
            {
                "upstreams": {"notes": demo_upstreams["notes"]},
                "accounts": {"enabled": True},
                "storage": {"url": database.url()},
                "observability": {"audit": {"to": "database"}},
            }
        ).ready()
        kept = http.client.HTTPConnection(urlsplit(served.base).netloc, timeout=WITHIN_S)
        getattr(database, way)()
        for _ in range(3):
            assert call(kept)[0] == 200
        kept.close()
        began = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - began < MARGIN_S
        events = [json.loads(line) for line in served.log if line.startswith("{")]
        told = {one["event"]: one for one in events}
        assert told["statistics_lost"]["calls"] == 3
        assert told["audit_not_closed"]["lost"] == 3
    finally:
        database.remove()


@pytest.mark.postgres
@pytest.mark.redis
def test_the_end_is_over_in_time_whatever_is_silent(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    """Each would be waited for, one after the other, for longer than a supervisor waits."""
    if postgres_folder() is None or redis_binary() is None:
        pytest.skip("PostgreSQL or Redis is not installed")
    with ExitStack() as stack:
        database, redis = PostgresServer(), RedisServer()
        stack.callback(redis.kill)
        stack.callback(database.remove)
        collector = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = collector.getsockname()[1]
        served = serve(
            {
                "upstreams": {"notes": demo_upstreams["notes"]},
                "accounts": {"enabled": True},
                "storage": {"url": database.url(), "redis": redis.url},
                "observability": {"audit": {"to": "database"}},
            },
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"},
        ).ready()
        kept = http.client.HTTPConnection(urlsplit(served.base).netloc, timeout=WITHIN_S)
        database.pause()
        redis.pause()
        assert call(kept)[0] == 200
        kept.close()
        began = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - began < MARGIN_S
        told = {json.loads(line)["event"] for line in served.log if line.startswith("{")}
        assert {"statistics_lost", "audit_not_closed", "telemetry_not_sent"} <= told


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux alone limits another process")
def test_a_database_that_takes_no_writes_is_told_of(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    upstreams = {"notes": demo_upstreams["notes"]}  # there is always to write how long it was up
    served = serve({"tool_rag": {"enabled": False}, "upstreams": upstreams}).ready()
    told: list[list[str]] = []
    for up in (0, 1):  # files may grow to nothing, as on a full disk, and again as they like
        most = resource.RLIM_INFINITY if up else 0
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        line = f"armory_database_up {up}.0"
        wait_until(lambda: line in metrics(served.base), served.log, WITHIN_S)  # noqa: B023
        status, body = served.readiness()
        told.append([why for why in body["not_ready"] if why.startswith("database: ")])
        assert status == 200
    assert [len(each) for each in told] == [1, 0]
    failed = [line for line in served.log if "accounts_task_failed" in line and '"flush"' in line]
    assert len(failed) == 1, "once, not every two seconds"
