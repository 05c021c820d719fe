"""Logging in through the gateway at a certified provider that is written in Go."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path

import aiohttp
import pytest
from mcp.shared.auth import OAuthToken

from tests.e2e.person import Person, gateway
from tests.protocol.conformance.built import built

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(120)]


class Provider:
    """The program of `identity/go`, which knows two people."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.issuer = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def register(self, gateway_url: str) -> None:
        """Register the gateway, as an operator does by hand."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{gateway_url}/oauth/callback\n")
        self._process.stdin.flush()
        assert self._line() == "registered"


@pytest.fixture
def provider() -> Generator[Provider]:
    program = built("go", "provider")
    with subprocess.Popen(
        [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Provider(process)
        finally:
            process.kill()


async def refreshed(url: str, person: Person) -> OAuthToken:
    """New tokens of a person's client."""
    assert person.client is not None
    assert person.tokens is not None
    form = {
        "grant_type": "refresh_token",
        "refresh_token": person.tokens.refresh_token,
        "client_id": person.client.client_id,
        "client_secret": person.client.client_secret or "",
    }
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/oauth/token", data=form) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return OAuthToken.model_validate(await answer.json())


async def test_the_python_client_logs_in_and_refreshes(tmp_path: Path, provider: Provider) -> None:
    behind = {
        "issuer": provider.issuer,
        "client_id": "armory",
        "client_secret": "the-secret-of-the-gateway",
    }
    security = {
        "oauth": {"proxy": behind, "scopes": ["mcp:use"], "user_claim": "preferred_username"},
        "policies": [{"who": ["test-user2"], "allow": ["notes__list_notes"]}],
    }
    async with gateway(tmp_path, security) as runtime:
        assert runtime.listening is not None
        url = runtime.listening.url
        provider.register(url)
        person = Person("test-user2", password="verysecure")
        assert await person.tools(f"{url}/mcp") == ["notes__list_notes"]
        assert any(place.startswith(f"{provider.issuer}/login/") for place in person.visited)
        seen, first = len(person.visited), person.tokens
        person.tokens = await refreshed(url, person)
        assert first is not None
        assert person.tokens.access_token != first.access_token
        assert await person.tools(f"{url}/mcp") == ["notes__list_notes"]
        assert len(person.visited) == seen
        other = Person("test-user@localhost", password="verysecure")
        assert await other.tools(f"{url}/mcp") == []
