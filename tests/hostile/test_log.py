"""Lines of log that anybody makes a gateway write.

Bounded: of an event that a request can make happen 20 lines a minute; the next one says how many
were left out.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.config import load_text
from armory.logger import LIMITED_LINES, LIMITED_S, LineLimit, Logger
from armory.observability.logging import configure_logging
from armory.observability.settings import LogSettings
from armory.runtime.opening import open_runtime
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script

pytestmark = pytest.mark.anyio
MANY = 3 * LIMITED_LINES
TOKEN = "the-long-token-of-somebody"


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    configure_logging(LogSettings("info", "json"), stream=stream)
    return stream


def lines(log: io.StringIO, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.getvalue().splitlines()]
    return [one for one in found if one["event"] == event]


@pytest.fixture
async def url(log: io.StringIO, tmp_path: Path) -> AsyncGenerator[str]:
    async with HttpUpstream(Script()) as upstream:
        config = {
            "upstreams": {"up": {"url": upstream.url}},
            "security": {
                "tokens": {"somebody": {"token": TOKEN}},
                "jwt": {"issuer": "https://a.example", "audience": "b", "secret": "s" * 32},
            },
            "tool_rag": {"enabled": False},
        }
        loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(tmp_path)})
        async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
            assert runtime.listening is not None
            # which sets up logging anew, as the configuration says
            configure_logging(LogSettings("info", "json"), stream=log)
            yield runtime.listening.url


async def send(url: str, token: str, params: Mapping[str, Any]) -> None:
    body = modern_body(1, "tools/call", {"name": "up__echo", "arguments": {}, **params})
    headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/mcp", json=body, headers=headers) as response,
    ):
        await response.read()


async def test_tokens_that_are_forged_without_end(url: str, log: io.StringIO) -> None:
    for number in range(MANY):
        await send(url, f"eyJhbGciOiJIUzI1NiJ9.e30.{number:x}", {})
    assert len(lines(log, "jwt_refused")) == LIMITED_LINES


async def test_states_that_are_forged_without_end(url: str, log: io.StringIO) -> None:
    for number in range(MANY):
        await send(url, TOKEN, {"requestState": f"forged{number}", "inputResponses": {}})
    assert len(lines(log, "request_state_refused")) == LIMITED_LINES


def test_what_was_left_out_is_told(log: io.StringIO) -> None:
    now = [0.0]
    limit = LineLimit(lambda: now[0])
    told = [limit.left_out_before() for _ in range(MANY)]
    assert told == [0] * LIMITED_LINES + [None] * (MANY - LIMITED_LINES)
    now[0] += LIMITED_S
    assert [limit.left_out_before() for _ in range(2)] == [MANY - LIMITED_LINES, 0]
    Logger("any").rate_limited("info", "refused", number=1)
    Logger("any").rate_limited("warning", "another")
    assert len(lines(log, "refused")) == len(lines(log, "another")) == 1
