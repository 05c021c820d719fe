"""Logging in at the gateway with the SDKs' own OAuth clients, at a certified provider."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import jwt
import pytest
from aiohttp import web
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl

from armory.authserver import documents
from armory.oauth.exchange import Route
from armory.testing.certificates import certificate
from armory.testing.listening import listening
from tests.e2e.person import CALLBACK, HERE, Person, gateway

pytestmark = [pytest.mark.anyio, pytest.mark.node]


async def test_the_python_client_registers_and_logs_in(tmp_path: Path, issuer: str) -> None:
    security = {"oauth": {"issuer": issuer, "scopes": ["mcp:use"]}}
    async with gateway(tmp_path, security) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp"
        ann = Person("ann")
        assert "notes__add_note" in await ann.tools(url)
        assert ann.client is not None
        assert ann.tokens is not None
        claims = jwt.decode(ann.tokens.access_token, options={"verify_signature": False})
        assert (claims["sub"], claims["aud"], claims["iss"]) == ("ann", url, issuer)
        seen = len(ann.visited)
        assert await ann.tools(url)
        assert len(ann.visited) == seen


async def test_the_python_client_uses_a_registration_by_hand(tmp_path: Path, issuer: str) -> None:
    known = OAuthClientInformationFull(
        client_id="known",
        client_secret="a-secret-that-was-given-by-hand",
        redirect_uris=[AnyUrl(CALLBACK)],
        token_endpoint_auth_method="client_secret_post",
        issuer=issuer,
    )
    policies = [{"who": ["bob"], "allow": ["notes__list_notes"]}]
    async with gateway(tmp_path, {"oauth": {"issuer": issuer}, "policies": policies}) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp/notes"
        assert await Person("bob", known).tools(url) == ["list_notes"]
        assert await Person("ann", known).tools(f"{runtime.listening.url}/mcp") == []


async def test_the_typescript_client_registers_and_logs_in(
    tmp_path: Path, issuer: str, node: str, node_dir: Path
) -> None:
    security = {"oauth": {"issuer": issuer, "scopes": ["mcp:use"]}}
    async with gateway(tmp_path, security) as runtime:
        assert runtime.listening is not None
        command = [
            node,
            str(HERE / "client.mjs"),
            str(node_dir),
            f"{runtime.listening.url}/mcp",
            "ann",
        ]
        done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3_000:]
    assert "notes__add_note" in json.loads(done.stdout)


# -- in front of a provider that registers nobody -------------------------------------------------


def behind(closed: str) -> dict[str, object]:
    """The block `security` of a gateway in front of it."""
    proxy = {"issuer": closed, "client_id": "armory", "client_secret": "the-secret-of-the-gateway"}
    return {"oauth": {"proxy": proxy, "scopes": ["mcp:use"]}}


async def test_the_python_client_logs_in_through_the_proxy(tmp_path: Path, closed: str) -> None:
    async with gateway(tmp_path, behind(closed)) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp"
        ann = Person("ann")
        assert "notes__add_note" in await ann.tools(url)
        assert ann.tokens is not None
        assert ann.tokens.refresh_token is not None
        assert [u for u in ann.visited if u.startswith(closed)]
        seen = len(ann.visited)
        assert await ann.tools(url)
        assert len(ann.visited) == seen


async def test_the_typescript_client_logs_in_through_the_proxy(
    tmp_path: Path, closed: str, node: str, node_dir: Path
) -> None:
    async with gateway(tmp_path, behind(closed)) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp"
        command = [node, str(HERE / "client.mjs"), str(node_dir), url, "ann"]
        done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3_000:]
    assert "notes__add_note" in json.loads(done.stdout)


async def test_the_python_client_is_known_by_its_document(
    tmp_path: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def document(request: web.Request) -> web.Response:
        asked.append(request.path)
        found = {"client_id": place, "client_name": "Code", "redirect_uris": [CALLBACK]}
        return web.json_response(found, headers={"Cache-Control": "max-age=3600"})

    app = web.Application()
    app.router.add_get("/code/client-metadata", document)
    cert, key = certificate(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    runner, origin = await listening(app, serving)
    place = f"{origin}/code/client-metadata"
    trusting = ssl.create_default_context(cafile=cert)
    # as if this machine were the internet
    route = Route(trusting, timeout_s=5.0, body_bytes=documents.BODY_BYTES, named=(origin,))
    monkeypatch.setattr(documents, "ROUTE", route)
    try:
        async with gateway(tmp_path, behind(closed)) as runtime:
            assert runtime.listening is not None
            ann = Person("ann", document=place)
            assert "notes__add_note" in await ann.tools(f"{runtime.listening.url}/mcp")
            assert ann.client is not None
            assert ann.client.client_id == place
            assert asked == [urlsplit(place).path]  # once: it is kept
    finally:
        await runner.cleanup()
