"""`server.limits.rest_query_chars` and `rest_top_k` hold over REST, each at its own value."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from armory.config import load_text
from armory.runtime import open_runtime

pytestmark = pytest.mark.anyio
PATHS = ("/retrieve_tools", "/v2/retrieve_tools", "/v1/retrieve_tools")


async def test_the_configured_limits_of_queries_over_rest(tmp_path: Path) -> None:
    blocks = {
        "server": {"limits": {"rest_query_chars": 10, "rest_top_k": 3}},
        "tool_rag": {"ranker": "lexical"},
    }
    loaded = load_text(json.dumps(blocks), environ={"ARMORY_HOME": str(tmp_path)})
    asked = (("a" * 11, 3, "query"), ("a" * 10, 4, "top_k"), ("a" * 10, 3, None))
    async with (
        open_runtime(loaded, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as session,
    ):
        assert runtime.listening is not None
        for path in PATHS:
            for query, top_k, wrong in asked:
                url = f"{runtime.listening.url}{path}?query={query}&top_k={top_k}"
                async with session.get(url) as answer:
                    told = await answer.json()
                    assert answer.status == (422 if wrong else 200)
                    assert told.get("parameter") == wrong
