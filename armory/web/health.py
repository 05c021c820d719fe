"""`/healthz`, `/readyz`, `/metrics`.

Owns: the shapes of these answers. Never imports `wire`: what they say arrives as plain functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests should come here.

    Attributes:
        ready: the verdict.
        missing: what is not ready, one line each; may name things while `ready` is true.
        details: more for people, JSON-serialisable.
    """

    ready: bool
    missing: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Health:
    """The three routes.

    Args:
        readiness: asked at every `/readyz`.
        metrics: gives (body, content type) of `/metrics`; None: the route does not exist.
    """

    def __init__(
        self,
        readiness: Callable[[], Readiness],
        metrics: Callable[[], tuple[bytes, str]] | None = None,
    ) -> None:
        self._readiness = readiness
        self._metrics = metrics

    def register(self, app: web.Application, base_path: str = "") -> None:
        """Add the routes."""
        app.router.add_get(f"{base_path}/healthz", self.healthz)
        app.router.add_get(f"{base_path}/readyz", self.readyz)
        if self._metrics is not None:
            app.router.add_get(f"{base_path}/metrics", self.metrics)

    async def healthz(self, _request: web.Request) -> web.Response:
        """The process lives and its event loop turns."""
        return _json(200, {"status": "ok"})

    async def readyz(self, _request: web.Request) -> web.Response:
        """200 once the first snapshot is there; says what is not ready."""
        found = self._readiness()
        body = {
            "status": "ready" if found.ready else "not ready",
            "not_ready": list(found.missing),
            **found.details,
        }
        return _json(200 if found.ready else 503, body)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Prometheus' text format."""
        assert self._metrics is not None
        body, content_type = self._metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})


def _json(status: int, body: Mapping[str, Any]) -> web.Response:
    return web.Response(
        status=status,
        text=json.dumps(body) + "\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
