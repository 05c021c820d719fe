"""A gateway that is an authorization server in front of a provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from armory.testing.people import World


@asynccontextmanager
async def proxied(world: World, **proxy: Any) -> AsyncGenerator[str]:
    async with world.gateway(oauth={"proxy": {**world.client, **proxy}}) as (url, _):
        yield url
