"""A gateway to try the examples on: the one at ARMORY_URL, or a small one started here.

Set ARMORY_URL (without `/mcp`) and ARMORY_TOKEN to use your own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from armory.config import load_text
from armory.runtime import open_runtime


@dataclass(slots=True)
class Armory:
    """The REST API of a gateway.

    Attributes:
        url: of the gateway; MCP is at `url + "/mcp"`.
        session: sends the credential with every request.
    """

    url: str
    session: aiohttp.ClientSession

    async def retrieve(self, query: str, **more: Any) -> dict[str, Any]:
        """`POST /v1/retrieve_tools`."""
        body = {"query": query, **more}
        async with self.session.post(f"{self.url}/v1/retrieve_tools", json=body) as answer:
            answer.raise_for_status()
            found: dict[str, Any] = await answer.json()
            return found


@asynccontextmanager
async def armory() -> AsyncGenerator[Armory]:
    """A gateway to talk to, for as long as the context lasts."""
    token = os.environ.get("ARMORY_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        if url := os.environ.get("ARMORY_URL"):
            yield Armory(url.rstrip("/"), session)
            return
        with tempfile.TemporaryDirectory() as home:
            python, path = json.dumps(sys.executable), str(Path(__file__).parents[1])
            text = f"""
upstreams:
  notes: {{command: {python}, args: [-m, armory.demo], env: {{PYTHONPATH: {json.dumps(path)}}}}}
  time: {{command: {python}, args: [-m, mcp_server_time]}}
"""
            loaded = load_text(text, environ={"ARMORY_HOME": home, "HOME": home})
            async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
                await runtime.searchable()
                assert runtime.listening is not None
                yield Armory(runtime.listening.url, session)
