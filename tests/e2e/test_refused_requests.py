"""What is refused at the door is counted for whoever runs the gateway."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Serve

pytestmark = pytest.mark.timeout(120)
TOKEN = "a-token-of-somebody"
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def test_metrics_say_how_many_requests_were_refused_and_why(serve: Serve) -> None:
    config = {
        "server": {"limits": {"sessions": 1, "body_bytes": 2_000}},
        "security": {"tokens": {"somebody": {"token": TOKEN}}},
        "tool_rag": {"enabled": False},
    }
    base = serve(config).ready().base

    def post(path: str = "/mcp", message: Any = HELLO, **headers: str) -> int:
        every = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {TOKEN}",
            **headers,
        }
        body = msgspec.json.encode(message)
        asked = urllib.request.Request(f"{base}{path}", body, every, method="POST")
        try:
            with urllib.request.urlopen(asked, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

    def refused() -> dict[str, int]:
        with urllib.request.urlopen(f"{base}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        found = re.findall(r'armory_requests_refused_total\{reason="(\w+)"\} (\d+)', text)
        return {reason: int(count) for reason, count in found}

    assert set(refused().values()) == {0}  # all are there from the start, so that alerts see each
    assert post() == 200
    assert post(Host="evil.example") == 403
    assert post(Origin="https://evil.example") == 403
    assert post(Authorization="Bearer nobody") == post(Authorization="Bearer nobody") == 401
    assert post("/mcp/set/nothing") == 404
    assert post(message={**HELLO, "params": {"padding": "x" * 3_000}}) == 413
    assert post() == 503
    assert {reason: count for reason, count in refused().items() if count} == {
        "host": 1,
        "origin": 1,
        "credential": 2,
        "endpoint": 1,
        "body": 1,
        "sessions": 1,
    }
