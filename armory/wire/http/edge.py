"""MCP over HTTP: one place where a request arrives, is admitted, and is given to its era.

Owns: routes, admission, authentication, body limits, caps, and the edge's life. Plain values in,
registered on an aiohttp application that others compose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog
from aiohttp import web

from armory.domain.principal import Principal
from armory.errors import ArmoryError, AuthenticationFailed
from armory.gateway.context import ALL, Endpoint
from armory.gateway.gateway import Gateway
from armory.protocol import codes, jsonrpc, versions
from armory.protocol.errors import Malformed
from armory.protocol.rawjson import encode, members_or_none
from armory.security.authentication import Authenticator
from armory.wire.dispatch import Dispatcher
from armory.wire.eras import ladder as eras
from armory.wire.http import legacy, modern
from armory.wire.http.admission import Admission, cors_headers, preflight_headers
from armory.wire.http.admitted import AdmittedRequest, accepts, json_answer, read_body, refusal
from armory.wire.http.replicas import Replicas
from armory.wire.http.sse_front import SseFront
from armory.wire.interaction.interactions import Interactions
from armory.wire.listening import Listening
from armory.wire.sessions.session import Sessions
from armory.wire.streams import EventStream, KeepaliveTimer

_log = structlog.get_logger(__name__)
_SWEEP_S = 15.0
Kind = Literal["all", "set", "server"]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP edge's configuration.

    Attributes:
        host: the bind address (decides what is loopback).
        base_path: prefix of every route, without a trailing slash.
        allowed_hosts, allowed_origins, trusted_proxies: see `wire.admission.Admission`.
        body_bytes: largest request body.
        json_depth: deepest nesting of a message.
        sessions: most legacy sessions at once.
        streams: most open event streams at once.
        parked: most calls that wait for a modern client's input at once.
        parked_timeout_s: how long they wait, in seconds; then they are cancelled.
        session_idle_s: seconds after which an unused session ends.
        state_keys: secrets that seal request state (32 bytes or more, the first one seals).
    """

    host: str = "127.0.0.1"
    base_path: str = ""
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    trusted_proxies: Sequence[str] = ()
    body_bytes: int = 4 << 20
    json_depth: int = jsonrpc.MAX_DEPTH
    sessions: int = 10_000
    streams: int = 10_000
    parked: int = 1_000
    parked_timeout_s: float = 300.0
    session_idle_s: float = 1_800.0
    state_keys: Sequence[bytes] = ()


class HttpEdge:
    """MCP's HTTP front.

    Args:
        gateway: the request path.
        authenticator: who is it.
        settings: see `HttpSettings`.
        replicas: the other replicas, if there are any.
    """

    def __init__(
        self,
        gateway: Gateway,
        authenticator: Authenticator,
        settings: HttpSettings | None = None,
        *,
        replicas: Replicas | None = None,
    ) -> None:
        settings = settings or HttpSettings()
        self.gateway = gateway
        self.settings = settings
        self.authenticator = authenticator
        self.admission = Admission(
            settings.host,
            settings.allowed_hosts,
            settings.allowed_origins,
            settings.trusted_proxies,
        )
        self.interactions = Interactions(
            settings.state_keys or None,
            ttl_s=settings.parked_timeout_s,
            capacity=settings.parked,
            replica=replicas.own_url if replicas is not None else "",
        )
        self.replicas = replicas
        self.dispatcher = Dispatcher(gateway, self.interactions)
        self.sessions = Sessions(
            gateway,
            capacity=settings.sessions,
            idle_s=settings.session_idle_s,
            directory=replicas,
        )
        self.listening: set[Listening] = set()
        self.pipes: set[EventStream] = set()
        self._sse = SseFront(self)
        self.patience = KeepaliveTimer()
        self.closing = False
        self._streams = 0
        self._sweeper: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------

    def register(self, app: web.Application) -> None:
        """Add the routes. The application's runner needs `handler_cancellation=True`."""
        base = self.settings.base_path
        kinds: tuple[tuple[str, Kind], ...] = (
            ("/mcp", "all"),
            ("/mcp/set/{name}", "set"),
            ("/mcp/{name}", "server"),
        )
        for path, kind in kinds:
            app.router.add_route("*", base + path, partial(self.handle, kind))
        app.router.add_route("*", f"{base}/sse", self._sse.stream)
        app.router.add_route("*", f"{base}/messages", self._sse.message)
        app.router.add_route("*", f"{base}/.well-known/mcp.json", self.discovery)

    def straight(self) -> dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]:
        """Handlers of what `register` adds under a path without parameters, by path."""
        return {f"{self.settings.base_path}/mcp": partial(self.handle, "all")}

    async def start(self) -> None:
        """Begin to expire idle sessions."""
        if self.replicas is not None:
            await self.replicas.start()
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_S, self.settings.session_idle_s / 4))
            await self.sessions.expire()

    def end_streams(self) -> None:
        """End every open stream properly; calls in flight go on."""
        self.closing = True
        for listening in list(self.listening):
            listening.stream.close()
        self.sessions.end_streams()
        for pipe in list(self.pipes):
            pipe.close()

    async def end_principal(self, key: str) -> None:
        """End the sessions and streams of a principal that may not connect any more."""
        for listening in list(self.listening):
            if listening.principal == key:
                listening.stream.close()
        for session in self.sessions.all():
            if session.principal.key == key:
                await self.sessions.end(session)

    async def close(self) -> None:
        """End streams, parked calls and sessions."""
        self.end_streams()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait((self._sweeper,))
            self._sweeper = None
        self.patience.close()
        await self.interactions.close()
        await self.sessions.close()
        if self.replicas is not None:
            await self.replicas.close()

    def take_stream(self) -> bool:
        """Count one more open stream; False when there are too many, or the edge closes."""
        if self.closing or self._streams >= self.settings.streams:
            return False
        self._streams += 1
        return True

    def give_stream(self) -> None:
        """Count one less."""
        self._streams -= 1

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._streams

    # -- requests ----------------------------------------------------------------------------

    async def handle(self, kind: Kind, request: web.Request) -> web.StreamResponse:
        """Answer one request to an MCP endpoint."""
        return await self.admitted(kind, request, self._serve)

    async def admitted(
        self,
        kind: Kind,
        request: web.Request,
        serve: Callable[[AdmittedRequest], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Let a request in, or answer why not."""
        try:
            admitted = await self.admit(kind, request)
        except RequestRejected as turned:
            return turned.response
        try:
            return await serve(admitted)
        except Malformed as bad:
            return refusal(400, bad.code, bad.message, id=bad.id, headers=admitted.extra)

    async def admit(self, kind: Kind, request: web.Request) -> AdmittedRequest:
        """Host, Origin, who, where.

        Raises:
            RequestRejected: the request is answered already.
        """
        headers = request.headers
        admission = self.admission
        remote, host = admission.seen_as(request.remote, headers)
        if not admission.host_allowed(host):
            message = f"Host {host!r} is not allowed; add it to server.allowed_hosts"
            raise RequestRejected(refusal(403, codes.INVALID_REQUEST, message))
        extra: dict[str, str] = {}
        origin = headers.get("Origin")
        if origin is not None:
            if not admission.origin_allowed(origin):
                message = f"Origin {origin!r} is not allowed; add it to server.allowed_origins"
                raise RequestRejected(refusal(403, codes.INVALID_REQUEST, message))
            extra = cors_headers(origin)
        if request.method == "OPTIONS":
            raise RequestRejected(_preflight(origin, request))
        principal = await self._authenticated(request, remote, extra)
        endpoint = self._endpoint(kind, request, principal)
        if endpoint is None:
            message = (
                f"there is no MCP endpoint {request.path!r}; /.well-known/mcp.json names those "
                "that there are"
            )
            raise RequestRejected(refusal(404, codes.INVALID_REQUEST, message, headers=extra))
        return AdmittedRequest(request, principal, endpoint, extra, *accepts(headers.get("Accept")))

    async def _authenticated(
        self, request: web.Request, remote: str | None, extra: dict[str, str]
    ) -> Principal:
        try:
            return await self.authenticator.authenticate(request.headers, remote)
        except AuthenticationFailed as failure:
            challenge = {**extra, "WWW-Authenticate": self.authenticator.challenge}
            response = refusal(401, codes.INVALID_REQUEST, failure.message, headers=challenge)
        except ArmoryError as failure:
            response = refusal(503, codes.BACKEND, failure.message, headers=extra)
        raise RequestRejected(response)

    def _endpoint(self, kind: Kind, request: web.Request, principal: Principal) -> Endpoint | None:
        if kind == "all":
            return ALL
        view = self.gateway.view
        endpoint = view.endpoint(kind, request.match_info["name"])
        if endpoint is None or not view.policy.restricts:
            return endpoint
        sight = view.policy.sight(view.catalog, principal, endpoint.scope)
        seen = sight.tools.names or sight.prompts or sight.resources or sight.templates
        return endpoint if seen else None

    async def _serve(self, admitted: AdmittedRequest) -> web.StreamResponse:
        request = admitted.request
        version = request.headers.get("MCP-Protocol-Version")
        if request.method == "POST":
            return await self._post(admitted, version)
        known = version is None or version in versions.LEGACY_VERSIONS
        if request.method == "GET" and known:
            return await legacy.get(self, admitted)
        if request.method == "DELETE" and known:
            return await legacy.delete(self, admitted)
        headers = {**admitted.extra, "Allow": "POST, GET, DELETE, OPTIONS" if known else "POST"}
        return refusal(
            405, codes.INVALID_REQUEST, f"{request.method} is not served here", headers=headers
        )

    async def _post(self, admitted: AdmittedRequest, version: str | None) -> web.StreamResponse:
        request = admitted.request
        if request.content_type != "application/json":
            message = f"Content-Type is {request.content_type!r}; expected application/json"
            return refusal(415, codes.INVALID_REQUEST, message, headers=admitted.extra)
        if not (admitted.takes_json or admitted.takes_sse):
            message = "Accept must list application/json and text/event-stream"
            return refusal(406, codes.INVALID_REQUEST, message, headers=admitted.extra)
        body = await read_body(request, self.settings.body_bytes)
        if body is None:
            message = (
                f"the body is larger than {self.settings.body_bytes:,} bytes; "
                "server.limits.body_bytes sets that limit"
            )
            return refusal(413, codes.INVALID_REQUEST, message, headers=admitted.extra)
        jsonrpc.check_depth(body, self.settings.json_depth)
        admitted.body = body
        if jsonrpc.is_batch(body):
            if version is not None and version not in versions.LEGACY_VERSIONS:
                raise Malformed(
                    codes.INVALID_REQUEST,
                    f"revision {version!r} has no batches; send one message per request",
                )
            return await legacy.post_batch(self, admitted, body)
        message = jsonrpc.decode(body)
        params = jsonrpc.params_of(message) if message.is_request else {}
        meta = members_or_none(params.get("_meta")) or {}
        method = message.method if isinstance(message.method, str) else None
        if eras.is_modern(version, meta, method):
            return await modern.post(self, admitted, message, params, meta)
        return await legacy.post(self, admitted, message)

    async def discovery(self, request: web.Request) -> web.StreamResponse:
        """The discovery document; servers and sets only for callers that are known."""
        remote, host = self.admission.seen_as(request.remote, request.headers)
        if not self.admission.host_allowed(host):
            return refusal(403, codes.INVALID_REQUEST, "this Host is not allowed")
        try:
            principal = await self.authenticator.authenticate(request.headers, remote)
        except ArmoryError:
            principal = None
        document = self.gateway.discovery(principal)
        document["protocolVersions"] = [*versions.LEGACY_VERSIONS, *versions.MODERN_VERSIONS]
        return json_answer(None, encode(document), headers={"Cache-Control": "no-store"})


class RequestRejected(Exception):
    """A request that admission has answered."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__()
        self.response = response


def _preflight(origin: str | None, request: web.Request) -> web.Response:
    if origin is None:
        return web.Response(status=204, headers={"Allow": "GET, POST, DELETE, OPTIONS"})
    asked = request.headers.get("Access-Control-Request-Headers")
    return web.Response(status=204, headers=preflight_headers(origin, asked))
