"""Serves an application with the gateway's own HTTP server.

Owns: `listen`. Never imports what is served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from armory.web.app import Listening
from armory.web.binding import Bound
from armory.web.front import Shortcut
from armory.web.settings import ListenSettings


async def listen(
    app: web.Application,
    bound: Bound,
    *,
    settings: ListenSettings | None = None,
    base_path: str = "",
    shortcut: Shortcut | None = None,
    who_asks: Callable[[web.Request], Awaitable[str | None]] | None = None,
) -> Listening:
    """Serve on a bound port.

    Args:
        app: the finished application.
        bound: the port; closed with the server.
        settings: bounds of requests and of the end.
        base_path: path under which everything is registered, for the URL.
        shortcut: paths that need no router.
        who_asks: whose a request is, where every connection is in use.
    """
    listening = Listening(bound, settings, base_path)
    await listening.serve(app, shortcut, who_asks)
    await listening.begin()
    return listening
