"""An upstream at which a person logs in, behind a pool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import plain
from armory.testing.upstreams.oauth import World
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.person import AuthorizationCodeTokens
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import UpstreamClient

REDIRECT = "http://127.0.0.1:3456/callback"


class Rig:
    """A pool in front of the protected upstream, and its login file."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.file = folder / "logins.json"
        self.grant = AuthorizationCode(store=str(self.file))
        self.pool = Pool([self.spec()])

    def spec(self) -> UpstreamSpec:
        return UpstreamSpec("kept", url=f"{self.world.url}/mcp", auth=self.grant)

    async def log_in(self) -> None:
        async def visit(url: str) -> Mapping[str, str]:
            return self.world.sent_back(url)

        client = UpstreamClient(self.spec())
        try:
            assert isinstance(client.tokens, AuthorizationCodeTokens)
            challenge = await client.challenged()
            await client.tokens.log_in(client.url, challenge, REDIRECT, visit)
        finally:
            await client.close()

    async def call(self) -> Any:
        params = {"name": Raw(b'"t"'), "arguments": Raw(b"{}")}
        call = Call("tools/call", params)
        return plain((await self.pool.request("kept", Owner(Principal("ann")), call)).result)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with World() as world:
        world.takes_people()
        rig = Rig(world, tmp_path)
        yield rig
        await rig.pool.close()
