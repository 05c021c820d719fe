"""The HTTP edge: receives requests and passes them to the endpoint of their era.

Owns: the edge's parts, its routes, telling eras apart, and its life. Plain values in, registered on
an aiohttp application that others compose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from armory.domain.principal import Principal
from armory.gateway.gateway import Gateway
from armory.logger import Logger
from armory.protocol import bodies, codes, versions
from armory.protocol.errors import Malformed
from armory.protocol.headers import SESSION_HEADER, VERSION_HEADER
from armory.protocol.rawjson import encode
from armory.security.authentication import Authenticator
from armory.tasks import spawn, stop
from armory.wire.eras.inbound import is_modern
from armory.wire.http.admission import REASONS, Admission, Kind, RequestRejected, preflight
from armory.wire.http.admitted import AdmittedRequest, json_answer, person_at, refusal, share_of
from armory.wire.http.body import BodyReader
from armory.wire.http.context import EdgeContext
from armory.wire.http.host_checks import HostChecks, cors_headers
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.http.legacy import LegacyEndpoint
from armory.wire.http.modern import ModernEndpoint
from armory.wire.http.open_streams import OpenStreams
from armory.wire.http.replicas import Replicas
from armory.wire.http.resources import ProtectedResources
from armory.wire.http.sse_front import SseFront
from armory.wire.interaction.interactions import Interactions
from armory.wire.interaction.shared_key import SharedKey
from armory.wire.messages import AT_ONCE_BYTES, taken_apart, taken_apart_in_steps
from armory.wire.methods import refuse_begun, refuse_large
from armory.wire.observed import Observers, dispatcher_of
from armory.wire.sessions.batches import Batches
from armory.wire.sessions.registry import Sessions
from armory.wire.sessions.turns import Shares
from armory.wire.settings import HttpSettings

_log = Logger(__name__)
_SWEEP_S = 15.0


class HttpEdge:
    """Serves MCP over HTTP.

    Args:
        gateway: the request path.
        authenticator: who is it.
        settings: see `HttpSettings`.
        replicas: the other replicas, if there are any.
        observers: who watches what clients ask; None: nobody.

    Attributes:
        authenticator: who is it.
        hosts: which Host and Origin values are taken.
        resources: the endpoints as resources of OAuth.
        interactions: the parked calls.
        sessions: those of legacy clients.
        streams: the open event streams.
    """

    def __init__(
        self,
        gateway: Gateway,
        authenticator: Authenticator,
        settings: HttpSettings | None = None,
        *,
        replicas: Replicas | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._settings = settings = settings or HttpSettings()
        self.authenticator = authenticator
        self._gateway = gateway
        self._replicas = replicas
        self.hosts = HostChecks(
            settings.host,
            settings.allowed_hosts,
            settings.allowed_origins,
            settings.trusted_proxies,
        )
        self.interactions = Interactions(
            ttl_s=settings.parked_timeout_s,
            capacity=settings.parked,
            per_principal=settings.parked_per_principal,
            replica=replicas.own_url if replicas is not None else "",
        )
        if replicas is not None:
            replicas.seen_through(self.hosts)
            replicas.tells.append(SharedKey(replicas.store, self.interactions.seal_with).tell)
        self.sessions = Sessions(
            gateway,
            capacity=settings.sessions,
            per_principal=settings.sessions_per_principal,
            idle_s=settings.session_idle_s,
            directory=replicas,
            on_ended=observers.session_ended("tcp") if observers else None,
        )
        self.streams = OpenStreams(settings.streams, settings.streams_per_principal)
        self._shares = Shares()
        self._keepalive = KeepaliveTimer()
        self._bodies = BodyReader(settings.body_bytes, settings.json_depth, refuse_begun)
        self.resources = ProtectedResources(
            self.hosts, settings.base_path, authenticator.protected, pages=settings.pages
        )
        self._admission = Admission(
            self.hosts,
            authenticator,
            gateway,
            self.resources,
            self._bodies,
            observers.denied() if observers else None,
            self._shares.refused,
        )
        self._dispatcher = dispatcher_of(gateway, self.interactions, observers)
        shared = EdgeContext(
            admission=self._admission,
            dispatcher=self._dispatcher,
            sessions=self.sessions,
            streams=self.streams,
            shares=self._shares,
            keepalive=self._keepalive,
            replicas=replicas,
            body_bytes=settings.body_bytes,
            bodies=self._bodies,
            batches=Batches(settings.batch_items, settings.batch_answer_bytes),
        )
        self._modern = ModernEndpoint(shared)
        self._legacy = LegacyEndpoint(shared)
        self._sse = SseFront(shared, settings.base_path)
        self._sweeper: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------

    def register(self, app: web.Application) -> None:
        """Register the routes, each also with a trailing slash, as many users paste it: few clients
        follow a redirect with a POST and its credential. The application's runner needs
        `handler_cancellation=True`.
        """
        base = self._settings.base_path
        kinds: tuple[tuple[str, Kind], ...] = (
            ("/mcp", "all"),
            ("/mcp/set/{name}", "set"),
            ("/mcp/{name}", "server"),
        )
        for path, kind in kinds:
            for slash in ("", "/"):
                app.router.add_route("*", f"{base}{path}{slash}", self._handler(kind))
        for slash in ("", "/"):
            app.router.add_route("*", f"{base}/sse{slash}", self._sse.stream)
        app.router.add_route("*", f"{base}/messages", self._sse.message)
        app.router.add_route("*", f"{base}/.well-known/mcp.json", self.discovery)
        self.resources.register(app)

    def fixed_path_handlers(
        self,
    ) -> dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]:
        """The handlers of `register` for paths without parameters, by path."""
        return {f"{self._settings.base_path}/mcp": self._handler("all")}

    def refused(self) -> dict[str, int]:
        """How many requests were rejected, by reason."""
        at_the_door = self._admission.refused
        return {
            **{reason: at_the_door[reason] for reason in REASONS},
            "sessions": self.sessions.refused,
            "streams": self.streams.refused,
            "parked": self.interactions.refused,
        }

    async def start(self) -> None:
        """Start expiring idle sessions."""
        if self._replicas is not None:
            await self._replicas.start()
        if self._sweeper is None:
            self._sweeper = spawn(self._sweep(), "expire sessions")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_S, self._settings.session_idle_s / 4))
            try:
                await self.sessions.expire()
            except Exception as error:  # noqa: BLE001 one must not keep all others
                _log.error("sessions_not_expired", exc_info=error)

    def end_streams(self) -> None:
        """End all open streams properly; calls in flight go on."""
        self.streams.end_all()
        self._sse.end_streams()
        self.sessions.end_streams()
        if self._replicas is not None:
            self._replicas.end_streams()

    async def end_principal(self, key: str) -> None:
        """End the sessions, streams and calls of a principal whose access has ended."""
        await self._end_those(lambda principal: principal.key == key)

    async def end_user(self, user: str) -> None:
        """End the sessions, streams and calls of a user, whatever credential opened them."""
        await self._end_those(lambda principal: principal.user == user)

    async def _end_those(self, whose: Callable[[Principal], bool]) -> None:
        self.authenticator.ended()
        self.streams.end_those(whose)
        self.interactions.end_those(whose)
        # side by side: a session must not be asked anything while others are looked up
        ending = (self._modern, self._sse, self.sessions)
        await asyncio.gather(*(part.end_those(whose) for part in ending))

    async def close(self) -> None:
        """End all streams, parked calls and sessions."""
        self.end_streams()
        sweeper, self._sweeper = self._sweeper, None
        await stop(sweeper)
        self._keepalive.close()
        await self._sse.close()
        await self.interactions.close()
        await self.sessions.close()
        if self._replicas is not None:
            await self._replicas.close()

    # -- requests ----------------------------------------------------------------------------

    def _handler(self, kind: Kind) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The handler of requests to a kind of MCP endpoint."""
        return partial(self._admission.serve, kind, serve=self._serve)

    async def _serve(self, admitted: AdmittedRequest) -> web.StreamResponse:
        method = admitted.request.method
        version = admitted.caller.headers.get(VERSION_HEADER)
        account = self._shares.account_on(admitted.connection, share_of(admitted.caller))
        if method == "POST":
            crowded = self._shares.enter(account)
            try:
                if crowded:
                    await self._shares.turn(account)
                    await self._admission.confirm(admitted)
                answer = await self._post(admitted, version)
                if not admitted.body:  # refused unread
                    self._dispatcher.refused(admitted.caller, f"http_{answer.status}")
                return answer
            except Malformed as bad:
                self._dispatcher.refused(admitted.caller, bad.code)
                raise
            finally:
                self._shares.leave(account)
        await self._shares.paid_off(account)
        known = version is None or version in versions.LEGACY_VERSIONS
        if method == "GET" and known:
            return await self._legacy.get(admitted)
        if method == "DELETE" and known:
            return await self._legacy.delete(admitted)
        if method in ("GET", "DELETE") and _names_unknown(admitted, version):
            return _unknown_revision(admitted, version)
        headers = {**admitted.extra, "Allow": "POST, GET, DELETE, OPTIONS" if known else "POST"}
        return refusal(405, codes.INVALID_REQUEST, f"{method} is not served here", headers=headers)

    async def _post(self, admitted: AdmittedRequest, version: str | None) -> web.StreamResponse:
        request = admitted.request
        usual = admitted.caller.headers.get("Content-Type") == "application/json"
        if not (usual and admitted.takes_json) and (unfit := _unfit(admitted)) is not None:
            return unfit
        body = self._bodies.arrived(request)
        if body is None:
            body = await self._bodies.read(request)
            await self._admission.confirm(admitted)
        if body is None:
            message = (
                f"the body is larger than {self._settings.body_bytes:,} bytes; "
                "server.limits.body_bytes sets that limit"
            )
            return refusal(413, codes.INVALID_REQUEST, message, headers=admitted.extra)
        if _names_unknown(admitted, version):
            return _unknown_revision(admitted, version)
        admitted.body = body
        if bodies.is_batch(body):
            if version is not None and version not in versions.LEGACY_VERSIONS:
                raise Malformed(
                    codes.INVALID_REQUEST,
                    f"revision {version!r} has no batches; send one message per request",
                )
            return await self._legacy.post_batch(admitted, body)
        if len(body) <= AT_ONCE_BYTES:
            message, known = taken_apart(body)
        else:  # others may have their turns
            message, known = await taken_apart_in_steps(body, refuse_large)
            await self._admission.confirm(admitted)
        meta = known[1] or {}
        method = message.method if isinstance(message.method, str) else None
        if is_modern(version, meta, method):
            return await self._modern.post(admitted, message, known[0], meta)
        return await self._legacy.post(admitted, message, known)

    async def who_asks(self, request: web.Request) -> str | None:
        """The key under which a request's connection is counted; None: unknown."""
        try:
            principal = await self._admission.caller(request)
        except RequestRejected:
            return None
        remote, _ = self.hosts.seen_as(request.remote, request.headers)
        return None if principal is None else person_at(principal, remote)

    async def discovery(self, request: web.Request) -> web.StreamResponse:
        """The discovery document; servers and sets only for authenticated callers."""
        origin = request.headers.get("Origin")
        shared = origin if origin is not None and self.hosts.origin_allowed(origin) else None
        if request.method == "OPTIONS":
            return preflight(shared, request)
        try:
            principal = await self._admission.caller(request)
        except RequestRejected as rejected:
            return rejected.response
        document = self._gateway.discovery(principal)
        document["protocolVersions"] = [*versions.LEGACY_VERSIONS, *versions.MODERN_VERSIONS]
        headers = {"Cache-Control": "no-store", **(cors_headers(shared) if shared else {})}
        return json_answer(None, encode(document), headers=headers)


def _unfit(admitted: AdmittedRequest) -> web.StreamResponse | None:
    """The error for a request whose body is not JSON, or whose Accept header lists neither JSON nor
    event streams; None: it is fine.
    """
    request = admitted.request
    if request.content_type != "application/json":
        message = f"Content-Type is {request.content_type!r}; expected application/json"
        return refusal(415, codes.INVALID_REQUEST, message, headers=admitted.extra)
    if not (admitted.takes_json or admitted.takes_sse):
        message = "Accept must list application/json and text/event-stream"
        return refusal(406, codes.INVALID_REQUEST, message, headers=admitted.extra)
    return None


def _names_unknown(admitted: AdmittedRequest, version: str | None) -> bool:
    """Whether a request of a session names an unknown revision."""
    unknown = version is not None and version not in versions.ALL_VERSIONS
    return unknown and SESSION_HEADER in admitted.request.headers


def _unknown_revision(admitted: AdmittedRequest, version: str | None) -> web.StreamResponse:
    known = ", ".join(versions.LEGACY_VERSIONS)
    message = f"{VERSION_HEADER} is {version!r}; sessions have one of {known}"
    return refusal(400, codes.INVALID_REQUEST, message, headers=admitted.extra)
