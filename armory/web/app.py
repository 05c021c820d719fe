"""The aiohttp application: composed of what others register, bound to one port, drained at the end.

Owns: the application, its middleware, binding and draining. Never imports `wire`: what serves MCP
registers itself on the application.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from armory.errors import ConfigError

_log = structlog.get_logger(__name__)
ALWAYS_ANSWERED = ("/healthz", "/readyz", "/metrics")
BODY_MARGIN = 64 * 1024
"""aiohttp's own body limit stands so far above the configured one, which answers first."""


@dataclass(slots=True)
class Listening:
    """A bound server.

    Attributes:
        url: where it is reached, base path included.
        host, port: what it is bound to.
    """

    url: str
    host: str
    port: int
    _runner: web.AppRunner

    async def close(self) -> None:
        """Stop accepting, let requests in flight end within the drain time, end the rest."""
        await self._runner.cleanup()


def make_app(
    *,
    body_bytes: int,
    wait_ready: Callable[[], Awaitable[None]] | None = None,
    log_requests: bool = False,
) -> web.Application:
    """An application without routes.

    Args:
        body_bytes: the largest body that routes accept.
        wait_ready: awaited before all requests but health; returns at once when all is there.
        log_requests: whether each request is logged.
    """
    middlewares: list[Middleware] = [_access_log] if log_requests else []
    middlewares.append(_pointed_elsewhere)
    if wait_ready is not None:
        middlewares.append(_held_until(wait_ready))
    return web.Application(middlewares=middlewares, client_max_size=body_bytes + BODY_MARGIN)


def _held_until(wait_ready: Callable[[], Awaitable[None]]) -> Middleware:
    @web.middleware
    async def hold(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.endswith(ALWAYS_ANSWERED):
            await wait_ready()
        return await handler(request)

    return hold


@web.middleware
async def _pointed_elsewhere(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell whoever opens a path that no route has where things are."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        if request.match_info.http_exception is None:
            raise
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


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Paths whose requests need neither router nor middleware: the ones of every MCP call.

    Attributes:
        handlers: by exact path; each is registered on the application, too, where requests go
            that come before all is ready or that expect a `100 Continue`.
        ready: whether all is there.
    """

    handlers: Mapping[str, Handler]
    ready: Callable[[], bool]

    def before(self, usual: Handler) -> Handler:
        """The handler of every request."""
        handlers, ready = self.handlers, self.ready

        def handle(request: web.Request) -> Awaitable[web.StreamResponse]:
            handler = handlers.get(request.path)
            if handler is None or not ready() or "Expect" in request.headers:
                return usual(request)
            return handler(request)

        return handle


async def listen(
    app: web.Application,
    host: str,
    port: int,
    *,
    base_path: str = "",
    drain_s: float = 30.0,
    shortcut: Shortcut | None = None,
) -> Listening:
    """Bind and serve.

    Args:
        app: the finished application.
        host: address to bind.
        port: port to bind; 0: one that is free.
        base_path: path under which everything is registered, for the URL.
        drain_s: how long requests in flight may go on when it closes.
        shortcut: paths that need no router.

    Raises:
        ConfigError: the address cannot be bound.
    """
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=drain_s
    )
    await runner.setup()
    if shortcut is not None and runner.server is not None:
        runner.server.request_handler = shortcut.before(runner.server.request_handler)  # pyright: ignore
    site = web.TCPSite(runner, host, port, backlog=1024)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise ConfigError(_bind_problem(error, host, port), path="server.port") from None
    bound = runner.addresses[0]
    actual = int(bound[1])
    shown = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        shown = "127.0.0.1"
    return Listening(f"http://{shown}:{actual}{base_path}", host, actual, runner)


def _bind_problem(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is taken by another program; choose another one "
            "(--port N, or --port 0 for any that is free)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than Armory has; choose one above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; bind 127.0.0.1 or 0.0.0.0"
    return f"{host}:{port} cannot be bound: {error.strerror or error}"
