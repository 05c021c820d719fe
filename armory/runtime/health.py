"""Health and metrics beside the gateway: the routes on the main port, and a port of their own.

Owns: binding and serving that port. Never decides what is healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from armory.config import Loaded
from armory.config.blocks.server import ServerConfig
from armory.errors import ArmoryError, ConfigError
from armory.runtime.settings import listen_settings
from armory.security.authentication import ADMIN, Authenticator
from armory.web.app import listen, make_app
from armory.web.binding import Bound, bind
from armory.web.health import Health, Readiness

_log = structlog.get_logger(__name__)
_METRICS_PORT = "server.metrics.port"


def bind_metrics(loaded: Loaded, host: str) -> Bound | None:
    """The port of the metrics, taken; None where they have none of their own.

    Raises:
        ConfigError: it cannot be had.
    """
    port = loaded.config.server.metrics.port
    if port is None or not loaded.config.observability.metrics:
        return None
    try:
        return bind(host, port)
    except ConfigError as error:
        said = error.message.removeprefix(f"{error.path}: ")
        raise ConfigError(said, path=_METRICS_PORT) from None


def make_health(
    loaded: Loaded,
    readiness: Callable[[], Readiness],
    metrics: Callable[[], tuple[bytes, str]],
    checks: Authenticator,
) -> Health:
    """The routes, as the configuration wants them; details are for the scope `admin`."""

    async def sees_details(headers: Mapping[str, str], remote: str | None) -> bool:
        try:
            who = await checks.authenticate(headers, remote)
        except ArmoryError:
            return False
        return ADMIN in who.scopes

    token = loaded.config.server.metrics.token
    return Health(
        readiness,
        metrics if loaded.config.observability.metrics else None,
        None if token is None else token.get_secret_value(),
        sees_details,
    )


async def serve_apart(
    health: Health, server: ServerConfig, stack: AsyncExitStack, bound: Bound
) -> None:
    """Serve health and metrics on a port of their own until `stack` unwinds."""
    app = make_app(body_bytes=1)
    settings = replace(listen_settings(server), drain_timeout_s=1.0)
    health.register(app)
    listening = await listen(app, bound, settings=settings)
    stack.push_async_callback(listening.close)
    _log.info("metrics_listening", host=listening.host, port=listening.port)
