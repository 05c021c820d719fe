"""Logging in at an upstream by a command: also where the upstream is an HTTP API."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.logins import log_in, log_out
from armory.testing.certificates import certificate
from armory.testing.upstreams.oauth import World

pytestmark = pytest.mark.anyio


async def test_the_gateway_logs_in_at_an_api(tmp_path: Path) -> None:
    async with World() as world:
        world.takes_people()
        api = {"openapi": "api.yaml", "base_url": f"{world.url}/mcp"}
        text = json.dumps({"upstreams": {"api": {**api, "auth": {"type": "authorization_code"}}}})
        home = {"ARMORY_HOME": str(tmp_path / "home")}
        loaded = load_text(text, path=tmp_path / "armory.yaml", environ=home)

        async def visit(url: str) -> dict[str, str]:
            return world.sent_back(url)

        assert await log_in(loaded, "api", "http://127.0.0.1:9/callback", visit) == world.issuer
        assert "token-1" in (tmp_path / "home" / "logins.json").read_text()
        assert await log_out(loaded, "api")
        assert not await log_out(loaded, "api")


@pytest.mark.parametrize("as_whom", [None, "user:ann"])
async def test_a_login_goes_by_the_upstreams_own_certificates(
    tmp_path: Path, as_whom: str | None
) -> None:
    cert, key = certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    async with World(tls=tls) as world:
        world.takes_people()
        auth = {"type": "authorization_code", "per": "principal" if as_whom else "gateway"}
        kept = {"url": f"{world.url}/mcp", "auth": auth, "tls": {"ca_file": str(cert)}}
        home = {"ARMORY_HOME": str(tmp_path / "home")}
        loaded = load_text(json.dumps({"upstreams": {"kept": kept}}), environ=home)

        async def visit(url: str) -> dict[str, str]:
            return world.sent_back(url)

        back = "http://127.0.0.1:9/callback"
        assert await log_in(loaded, "kept", back, visit, as_whom) == world.issuer
        assert await log_out(loaded, "kept", as_whom)
