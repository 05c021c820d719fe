"""A REST service over a small catalog, and a client that keeps what it was answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.accounts.settings import AccountSettings
from armory.domain.catalog import ToolRules
from armory.security.authentication import StaticToken
from armory.security.policy import Rule
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import Service, catalog_of, running_service

ANN, BOB = "the-token-of-ann", "the-token-of-bob"
LIMITED = "the-token-of-lim"


def tool(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"target": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema}


SERVERS = {
    "aws": [tool("deploy", "Deploy an application to production"), tool("logs", "Read logs")],
    "slack": [tool("notify", "Notify the team with a message"), tool("search", "Search messages")],
    "secret": [tool("vault", "Deploy secret keys to the vault")],
}


@dataclass
class Answered:
    status: int
    body: Any
    headers: Any


class Client:
    """Requests to one service."""

    def __init__(self, session: aiohttp.ClientSession, service: Service) -> None:
        self._session = session
        self.service = service

    async def __call__(
        self, method: str, path: str, *, token: str | None = ANN, **more: Any
    ) -> Answered:
        headers = dict(more.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = self.service.url + path
        async with self._session.request(method, url, headers=headers, **more) as answer:
            raw = await answer.read()
            is_json = "json" in answer.headers.get("Content-Type", "")
            return Answered(answer.status, await answer.json() if is_json and raw else raw,
                            answer.headers)  # fmt: skip

    async def names(self, path: str, **params: Any) -> list[str]:
        token = params.pop("token", ANN)
        found = await self("GET", path, token=token, params=params)
        assert found.status == 200, found.body
        return [entry["name"] for entry in found.body["tools"]]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    tokens = [
        StaticToken("ann", ANN, user="ann"),
        StaticToken("bob", BOB, user="bob"),
        StaticToken("lim", LIMITED, user="lim"),
        StaticToken("service", "the-service-token"),
    ]
    rules = [
        Rule(who=("admin",), allow=("*",)),
        Rule(who=("ann", "bob", "lim", "service"), allow=("*",), deny=("secret__*",)),
    ]
    settings = AccountSettings(enabled=True, plans={"free": None, "tiny": 2})
    catalog = catalog_of(SERVERS, {"slack": ToolRules(category="chat", tags={"*": ("async",)})})
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog,
            settings=settings,
            rules=rules,
            tokens=tokens,
            embedder=HashingEmbedder(),
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        await service.accounts.users.create("lim", "tiny")
        yield Client(session, service)
