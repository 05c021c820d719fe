"""Health and metrics beside the gateway: the routes on the main port, and on one of their own.

Owns: who may see the details. Never decides what is healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from armory.config import Loaded
from armory.errors import ArmoryError
from armory.security.authentication import ADMIN, Authenticator
from armory.web.app import Listening, make_app
from armory.web.health import Health, Readiness

_log = structlog.get_logger(__name__)


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


async def serve_apart(health: Health, listening: Listening) -> None:
    """Serve health and metrics on a port of their own."""
    app = make_app(body_bytes=1)
    health.register(app)
    await listening.serve(app)
    _log.info("metrics_listening", host=listening.host, port=listening.port)
