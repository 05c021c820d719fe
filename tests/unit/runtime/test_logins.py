"""Logging in at an upstream by a command: also where the upstream is an HTTP API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.logins import log_in, log_out
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
