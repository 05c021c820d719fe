"""A call over REST of what is not there, and of what nobody can tell of."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from armory.config import load_text
from armory.runtime import open_runtime

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_a_tool_of_a_server_that_is_down_is_not_said_to_be_unknown(tmp_path: Path) -> None:
    text = json.dumps({"upstreams": {"gone": {"command": "no-such-program"}}})
    loaded = load_text(text, path=tmp_path / "a.yaml", environ={"ARMORY_HOME": str(tmp_path)})
    async with (
        open_runtime(loaded, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as http,
    ):
        await runtime.ready()
        assert runtime.listening is not None

        async def called(name: str) -> tuple[int, str, bool]:
            url = f"{runtime.listening.url}/v1/tools/{name}/call"  # pyright: ignore[reportOptionalMemberAccess]
            async with http.post(url, json={}) as answer:
                return answer.status, (await answer.json())["code"], "Retry-After" in answer.headers

        assert await called("gone__x") == (503, "upstream_unavailable", True)
        assert await called("other__x") == (404, "unknown_tool", False)
