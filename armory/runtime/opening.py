"""From a configuration to a running gateway, and back.

Owns: `open_runtime`: the ports first, then everything else, which takes most of a start. Imports
nothing but what a port needs until it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from armory.config import Loaded
from armory.logger import set_up
from armory.runtime.entry.listeners import Listeners, open_listeners
from armory.storage.private import private_folder
from armory.web.app import Listening

if TYPE_CHECKING:
    from armory.runtime.retrieval import Progress
    from armory.runtime.running import Runtime


@asynccontextmanager
async def open_runtime(
    loaded: Loaded,
    *,
    address: tuple[str, int] | None = None,
    trusted: bool = False,
    on_progress: Progress | None = None,
    on_listening: Callable[[Listening], None] | None = None,
) -> AsyncGenerator[Runtime]:
    """A running gateway, for as long as the context lasts.

    The port is bound before anything is started, so that a taken one starts nothing, and accepts
    connections: `/healthz` is answered from then on, other requests wait for the gateway; requests
    to MCP endpoints wait for the first snapshot as well.

    Args:
        loaded: the configuration.
        address: (host, port) to listen on; None: serve nobody (`Runtime.gateway` can be used).
        trusted: whether policies are left out, for the operator's own commands.
        on_progress: called with (texts embedded, texts to embed) while tools are indexed.
        on_listening: called as soon as the port accepts connections.

    Raises:
        ConfigError: something in the configuration does not work out here.
    """
    async with AsyncExitStack() as stack:
        listeners: Listeners | None = None
        if address is None:
            private_folder(loaded.home)
        else:
            listeners = await open_listeners(loaded, address, stack)
            if on_listening is not None:
                on_listening(listeners.listening)
        assembled = await asyncio.to_thread(_assembled)
        yield await assembled(loaded, stack, listeners, trusted=trusted, on_progress=on_progress)


def _assembled() -> Callable[..., Awaitable[Runtime]]:
    """Import nearly all modules, in a thread, while the event loop answers health checks."""
    from armory.runtime.assembling import assembled

    set_up()  # a gateway has something to log
    return assembled
