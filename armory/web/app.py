"""The aiohttp application: assembled from registered routes, bound to one port, drained at
shutdown.

Owns: the application, its middleware, serving and draining. Never imports `wire`: what serves MCP
registers itself on the application.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Set
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from armory.logger import Logger
from armory.web.binding import Bound, cannot_bind
from armory.web.connections.registry import LATE_AMONG_REPLICAS_S, Connections
from armory.web.early import Early
from armory.web.front import Front, Shortcut
from armory.web.settings import ListenSettings

_log = Logger(__name__)
ALWAYS_ANSWERED = ("/healthz", "/readyz", "/metrics")
_EVERYWHERE = ("0.0.0.0", "::")
_ACCEPTED_AT_ONCE = 64
_BACKLOG = 1_024
BODY_MARGIN = 64 * 1024
"""How far aiohttp's own body limit is above the configured one, which is to answer first."""


class Listening:
    """A bound server: accepts connections at once, and lets an application answer later.

    Requests that come in between wait, except `/healthz`.

    Args:
        bound: the port; closed with the server.
        settings: bounds of requests and of the end.
        base_path: path under which everything is registered, for the URL.
        body_bytes: the largest body of a request that comes before the application does.

    Attributes:
        url: where it is reached, base path included.
        host, port: what it is bound to.
        connections: those of its clients.
    """

    def __init__(
        self,
        bound: Bound,
        settings: ListenSettings | None = None,
        base_path: str = "",
        body_bytes: int = 0,
    ) -> None:
        settings = settings or ListenSettings()
        self.host, self.port = bound.host, bound.port
        shown = "127.0.0.1" if self.everywhere else _bracketed(self.host)
        self.url = f"http://{shown}:{self.port}{base_path}"
        self._bound = bound
        self._front = Front(_health(base_path))
        self._early = Early(body_bytes + BODY_MARGIN, base_path)
        self._server = web.Server(
            self._front.around(self._early.handle, None),  # pyright: ignore[reportArgumentType]
            request_factory=self._early.request,  # requests of the kind that the handler takes
            handler_cancellation=True,
        )
        self._runner = _Runner(self._server, shutdown_timeout=settings.drain_timeout_s)
        self.connections = Connections(settings, self._server)

    @property
    def everywhere(self) -> bool:
        """Whether it is bound to all addresses of this machine."""
        return self.host in _EVERYWHERE

    @property
    def address(self) -> str:
        """The address that it is bound to: `127.0.0.1:8080`, `[::]:8080`."""
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def refused(self) -> int:
        """How many requests were refused because every connection was in use."""
        return self._front.refused

    async def begin(self) -> None:
        """Start accepting connections.

        Raises:
            ConfigError: another program took the port in the same moment.
        """
        await self._runner.setup()
        try:
            for taken in self._bound.sockets:
                await _Site(self._runner, taken, self.connections).start()
        except OSError as error:
            await self._runner.cleanup()
            raise cannot_bind(error, self.host, self.port) from None
        self.connections.start()

    async def serve(
        self,
        app: web.Application,
        shortcut: Shortcut | None = None,
        who_asks: Callable[[web.Request], Awaitable[str | None]] | None = None,
    ) -> None:
        """Let an application answer, including the requests that are waiting.

        Args:
            app: the finished application.
            shortcut: paths that need no router.
            who_asks: whose a request is, as its connection says of its caller; None: nobody's that
                is known. Only asked where every connection is in use.
        """
        runner = web.AppRunner(app)
        await runner.setup()
        made = runner.server
        assert made is not None
        handler: Handler = made.request_handler  # pyright: ignore
        # A connection keeps what it has found here when it was made.
        self._server.request_handler = self._front.around(handler, shortcut)  # pyright: ignore
        self._server.request_factory = made.request_factory
        self._runner.app = app
        self._early.serve(handler)
        if who_asks is not None:
            self._front.make_room = partial(self._make_room, who_asks)

    async def _make_room(
        self, who_asks: Callable[[web.Request], Awaitable[str | None]], request: web.Request
    ) -> bool:
        """Make room for the caller of a request on a connection beyond the cap; returns whether
        there is.
        """
        caller = await who_asks(request)
        connection: Any = request.protocol
        return caller is not None and self.connections.make_room(connection, caller)

    def leave(self) -> None:
        """From now on close each connection after its answer; new connections are still served."""
        self._front.stopping = True
        self.connections.late_s = LATE_AMONG_REPLICAS_S

    async def close(self) -> None:
        """Stop accepting, let requests in flight finish within the drain time, cancel the rest.

        Safe to call twice.
        """
        self._front.stopping = True
        self._early.give_up()
        await self._runner.cleanup()
        app, self._runner.app = self._runner.app, None
        if app is not None:
            await app.cleanup()
        self.connections.stop()


class _Runner(web.ServerRunner):
    """An aiohttp runner that tells the application when it has stopped accepting connections."""

    app: web.Application | None = None

    async def shutdown(self) -> None:
        """As aiohttp's; called after accepting ends and before waiting for busy connections."""
        if self.app is not None:
            await self.app.shutdown()


def make_app(
    *,
    body_bytes: int,
    wait_ready: Callable[[], Awaitable[None]] | None = None,
    base_path: str = "",
    log_requests: bool = False,
) -> web.Application:
    """An application without routes.

    Args:
        body_bytes: the largest body that routes accept.
        wait_ready: awaited before all requests but health; returns at once when all is there.
        base_path: path under which health is served.
        log_requests: whether each request is logged.
    """
    middlewares: list[Middleware] = [_access_log] if log_requests else []
    middlewares.append(_explain_not_found)
    if wait_ready is not None:
        middlewares.append(_held_until(wait_ready, _health(base_path)))
    return web.Application(middlewares=middlewares, client_max_size=body_bytes + BODY_MARGIN)


def _health(base_path: str) -> frozenset[str]:
    """Not what ends alike: an upstream may be called `metrics`."""
    return frozenset(base_path + path for path in ALWAYS_ANSWERED)


def _held_until(wait_ready: Callable[[], Awaitable[None]], health: Set[str]) -> Middleware:
    @web.middleware
    async def hold(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in health:
            await wait_ready()
        return await handler(request)

    return hold


_OF_LOGINS = frozenset(("/register", "/authorize", "/token"))
"""Where clients that are refused look for a login when nothing names one (revision 2025-03-26)."""
_NO_LOGIN = (
    "clients cannot log in here by themselves: configure a token of this gateway in the client, "
    "which sends it as `Authorization: Bearer <token>`\n"
)


@web.middleware
async def _explain_not_found(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer requests for unknown paths with the places where things are."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        if request.match_info.http_exception is None:
            raise
        if request.path in _OF_LOGINS:
            raise web.HTTPNotFound(text=_NO_LOGIN) from None
        raise web.HTTPNotFound(
            text=f"there is nothing at {request.path!r}: MCP clients connect to /mcp, the REST API "
            "is described at /docs, /.well-known/mcp.json names the endpoints (each below "
            "server.base_path, where that is set)\n"
        ) from None


@web.middleware
async def _access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    started = time.perf_counter()
    status = 500
    try:
        response = await handler(request)
        status = response.status
        return response
    except asyncio.CancelledError:  # the client left, as it does whenever it closes a stream
        status = 499
        raise
    except web.HTTPException as answer:
        status = answer.status
        raise
    finally:
        _log.debug(
            "request",
            method=request.method,
            path=request.path,
            status=status,
            took_ms=round((time.perf_counter() - started) * 1_000, 2),
            remote=request.remote,
        )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _Site(web.BaseSite):
    """A bound socket whose connections are tracked."""

    def __init__(self, runner: web.BaseRunner, taken: socket.socket, made: Connections) -> None:
        super().__init__(runner)
        self._socket = taken
        self._made = made

    @property
    def name(self) -> str:
        """The address."""
        return str(self._socket.getsockname())

    async def start(self) -> None:
        """Accept connections."""
        await super().start()
        self._server = await asyncio.get_running_loop().create_server(
            self._made, sock=self._socket, backlog=_ACCEPTED_AT_ONCE
        )
        self._socket.listen(_BACKLOG)
