"""Holds requests that arrive before the application is ready.

Owns: letting them wait, and saying meanwhile that the process lives. Never knows what will answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from armory.web.health import HEALTH_PATH, alive


class Early:
    """Handles all requests until there is an application, which then gets those that waited.

    Args:
        body_bytes: the largest body that can be read of a request that came early.
        base_path: path under which everything is served.
    """

    def __init__(self, body_bytes: int, base_path: str = "") -> None:
        self._body_bytes = body_bytes
        self._health = base_path + HEALTH_PATH
        self._handler: Handler | None = None
        self._decided = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
    ) -> web.Request:
        """Make aiohttp's request object."""
        return web.Request(
            message, payload, protocol, writer, task, self._loop, client_max_size=self._body_bytes
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, as soon as that is possible."""
        if self._handler is None:
            if request.path == self._health and request.method in ("GET", "HEAD"):
                return alive()
            await self._decided.wait()
        if self._handler is None:
            return web.Response(status=503, text="the gateway ends\n")
        return await self._handler(request)

    def serve(self, handler: Handler) -> None:
        """From now on let `handler` answer."""
        self._handler = handler
        self._decided.set()

    def give_up(self) -> None:
        """There will be no application: fail the requests that wait."""
        self._decided.set()
