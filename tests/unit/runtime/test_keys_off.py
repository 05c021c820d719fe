"""Keys of the accounts database where no gateway accepts them."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from armory.config import load_text
from armory.runtime import open_runtime

pytestmark = pytest.mark.anyio
ADMIN, ANN = "the-token-of-the-operator", "the-token-of-ann"


async def test_no_key_is_made_that_nobody_accepts(tmp_path: Path) -> None:
    tokens = {
        "root": {"token": ADMIN, "scopes": ["admin"]},
        "ann": {"token": ANN, "user": "ann"},
    }
    blocks = {
        "security": {"tokens": tokens},
        "accounts": {"enabled": True},
        "tool_rag": {"enabled": False},
    }
    loaded = load_text(json.dumps(blocks), environ={"ARMORY_HOME": str(tmp_path)})
    async with (
        open_runtime(loaded, address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as session,
    ):
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/v1/keys"
        for token in (ADMIN, ANN):
            headers = {"Authorization": f"Bearer {token}"}
            async with session.post(url, json={"name": "x"}, headers=headers) as answer:
                told = await answer.json()
                assert (answer.status, told["code"]) == (403, "access_denied")
                assert "security.api_keys is off" in told["detail"]
            async with session.get(url, headers=headers) as answer:
                assert (await answer.json())["keys"] == []
