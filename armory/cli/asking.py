"""Chooses the gateway that a command asks: a running one at a URL, or one opened here.

Owns: the choice. Each is imported when it is chosen: whoever asks a gateway that runs loads none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from armory.cli.answers import AnyGateway

if TYPE_CHECKING:
    from armory.config import Loaded


@asynccontextmanager
async def any_gateway(
    url: str | None,
    token: str | None,
    load: Callable[[], Loaded],
    *,
    mode: str | None = None,
    searched: bool = False,
) -> AsyncGenerator[AnyGateway]:
    """The gateway at `url`; without one, a gateway over the configured upstreams, opened here.

    Args:
        url: a gateway's URL, with or without `/mcp`.
        token: bearer token for it.
        load: gives the configuration, asked for only without `url`.
        mode: as the URL parameter `mode`.
        searched: as `opened`.
    """
    if url is not None:
        from armory.cli.remote import connected

        async with connected(url, token, mode) as gateway:
            yield gateway
        return
    from armory.cli.local import LocalGateway, opened

    async with opened(load(), searched=searched) as runtime:
        yield LocalGateway(runtime, mode)
