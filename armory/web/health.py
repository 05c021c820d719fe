"""`/healthz`, `/readyz` and `/metrics`, on the main port and on a port of their own.

Owns: the shapes of these answers, and who may read the metrics and the details. Never imports
`wire`: what they say, and who asks, arrives as plain functions.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

HEALTH_PATH = "/healthz"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether this gateway should receive requests.

    Attributes:
        ready: the verdict.
        missing: what is not ready, one line each; may name things while `ready` is true.
        details: more for people, JSON-serialisable.
    """

    ready: bool
    missing: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Health:
    """Answers `/healthz`, `/readyz` and `/metrics`.

    Args:
        readiness: asked at every `/readyz`.
        metrics: gives (body, content type) of `/metrics`; None: the route does not exist.
        token: bearer token that `/metrics` asks for; None: it asks for none.
        sees_details: whether whoever sends these headers may know what is not ready and why; None:
            nobody may.
        misled: whether whoever sends these headers, from this address, may be a browser that was
            led here under a name that somebody else gave this machine: their page would read it.
    """

    def __init__(
        self,
        readiness: Callable[[], Readiness],
        metrics: Callable[[], Awaitable[tuple[bytes, str]]] | None = None,
        token: str | None = None,
        sees_details: Callable[[Mapping[str, str]], Awaitable[bool]] | None = None,
        misled: Callable[[Mapping[str, str], str | None], bool] = lambda _headers, _remote: False,
    ) -> None:
        self._misled = misled
        self._sees_details = sees_details
        self._readiness = readiness
        self._metrics = metrics
        self._expected = None if token is None else f"Bearer {token}".encode()

    def register(self, app: web.Application, base_path: str = "", *, metrics: bool = True) -> None:
        """Register the routes.

        Args:
            app: where to.
            base_path: before each path.
            metrics: whether `/metrics` is among them.
        """
        app.router.add_get(base_path + HEALTH_PATH, self.healthz)
        app.router.add_get(f"{base_path}/readyz", self.readyz)
        if metrics and self._metrics is not None:
            app.router.add_get(f"{base_path}/metrics", self.metrics)

    async def healthz(self, _request: web.Request) -> web.Response:
        """200: the process is alive and its event loop runs."""
        return alive()

    async def readyz(self, request: web.Request) -> web.Response:
        """200 once the first snapshot is served; details for callers that may know them."""
        found = self._readiness()
        body: dict[str, Any] = {"status": "ready" if found.ready else "not ready"}
        sees = self._sees_details
        if sees is not None and await sees(request.headers):
            body |= {"not_ready": list(found.missing), **found.details}
        return _json(200 if found.ready else 503, body)

    async def metrics(self, request: web.Request) -> web.Response:
        """Prometheus' text format; 401 without the token, where one is asked for; 403 where the
        request is `misled`.
        """
        assert self._metrics is not None
        if self._misled(request.headers, request.remote):
            return web.Response(status=403, text="this Host is not in server.allowed_hosts\n")
        given = request.headers.get("Authorization", "").encode()
        if self._expected is not None and not hmac.compare_digest(given, self._expected):
            return web.Response(
                status=401,
                text="the metrics want the bearer token of server.metrics.token\n",
                headers={"WWW-Authenticate": "Bearer"},
            )
        body, content_type = await self._metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})


def alive() -> web.Response:
    """The answer of a process whose event loop runs."""
    return _json(200, {"status": "ok"})


def _json(status: int, body: Mapping[str, Any]) -> web.Response:
    return web.Response(
        status=status,
        text=json.dumps(body) + "\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
