"""The first handler of each request, before router and middleware.

Owns: `Front`: closing connections at shutdown, the refusals beyond the cap and of long targets, and
the shortcut to the handlers of MCP. Never imports the application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

_LONG_TARGET = 1_024
_PATH_PARTS, _PARAMETERS = 64, 256
"""Limits of a longer target: the router looks up each beginning of its path, and parameters are
parsed before it is known who asks."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Exact paths that bypass router and middleware: those of every MCP call.

    Attributes:
        handlers: by exact path; each is registered on the application, too, where requests go
            that come before all is ready or that expect a `100 Continue`.
        ready: whether all is there.
    """

    handlers: Mapping[str, Handler]
    ready: Callable[[], bool]


@dataclass(slots=True)
class Front:
    """Wraps the handler of requests.

    During shutdown each answer closes its connection. Answers on connections beyond the cap close
    theirs, too, and only health checks are served there, unless one caller has more than half of
    all connections: then one of those is closed to make room.

    Attributes:
        stopping: whether the server is shutting down.
        make_room: for the caller of a request on such a connection; whether there is some now.
        refused: how many requests beyond the cap were not answered.
        health: paths that are answered also there.
    """

    health: frozenset[str]
    stopping: bool = False
    make_room: Callable[[web.Request], Awaitable[bool]] | None = None
    refused: int = 0

    def around(self, handler: Handler, shortcut: Shortcut | None) -> Handler:
        """The handler of every request."""
        direct: Mapping[str, Handler] = {} if shortcut is None else shortcut.handlers
        ready = _never if shortcut is None else shortcut.ready

        def handle(request: web.Request) -> Awaitable[web.StreamResponse]:
            connection: Any = request.protocol
            message = request._message  # pyright: ignore[reportPrivateUsage]
            if connection.reserve and request.path not in self.health:
                return self._beyond(request, handle)
            if self.stopping or connection.reserve:
                # as if the client had asked for it: also streams say so in their head
                request._message = message._replace(should_close=True)  # pyright: ignore[reportPrivateUsage]
            target = message.path
            if len(target) > _LONG_TARGET and _has_too_many_parts(target):
                return _too_long()
            found = direct.get(target) or direct.get(request.path)  # most need not be taken apart
            if found is None or not ready() or "Expect" in request.headers:
                return handler(request)
            return found(request)

        return handle

    async def _beyond(self, request: web.Request, handle: Handler) -> web.StreamResponse:
        """The answer to a request on a connection beyond the cap."""
        if self.make_room is None or not await self.make_room(request):
            self.refused += 1
            return _full()
        return await handle(request)


def _never() -> bool:
    return False


def _has_too_many_parts(target: str) -> bool:
    path, _, query = target.partition("?")
    return path.count("/") > _PATH_PARTS or query.count("&") >= _PARAMETERS


async def _too_long() -> web.StreamResponse:
    text = f"expected at most {_PATH_PARTS} parts of the path and {_PARAMETERS} parameters\n"
    return web.Response(status=414, text=text)


def _full() -> web.StreamResponse:
    full = web.Response(
        status=503,
        text="every connection is in use (server.limits.connections); try again later\n",
        headers={"Retry-After": "1"},
    )
    full.force_close()
    return full
