"""The agent's stream ends when the session token that asked does, and says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest

from armory.agent.findings import AgentResult, Event
from armory.security.jwt import JwtScheme
from armory.security.settings import JwtSettings
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import catalog_of, running_service

SECRET = "a-secret-of-more-than-thirty-two-bytes"


class Endless:
    """An agent that says one thing and thinks on for good."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    async def run(self, question: str, **_: Any) -> AgentResult:
        raise NotImplementedError

    async def stream(self, question: str, **_: Any) -> AsyncGenerator[Event]:
        try:
            yield Event("thought", "hm", 0, 1.0)
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


@pytest.mark.anyio
async def test_the_stream_of_an_expired_token_ends(tmp_path: Path) -> None:
    agent, leeway_s = Endless(), 30.0
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of({"a": [{"name": "b", "description": "c"}]}),
            embedder=HashingEmbedder(),
            agent=agent,
            schemes=[
                JwtScheme(JwtSettings(secret=SECRET, algorithms=["HS256"]), leeway_s=leeway_s)
            ],
        ) as service,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        claims = {"sub": "ann", "exp": time.time() + 5.0 - leeway_s}
        headers = {
            "Authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}",
            "Accept": "text/event-stream",
        }
        body = {"query": "q", "mode": "agent"}
        url = f"{service.url}/v1/retrieve_tools"
        async with session.post(url, json=body, headers=headers) as answer:
            text = await answer.text()
        async with asyncio.timeout(10):
            await agent.stopped.wait()
    events = [part.split("\n")[0] for part in text.strip().split("\n\n")]
    assert events == ["event: thought", "event: error"]
    assert "authentication_failed" in text
