"""Admits HTTP requests: checks host, origin, credential and endpoint.

Owns: `Admission`, which makes an `AdmittedRequest` or answers why not, and counts how often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, get_args

from aiohttp import web

from armory.domain.principal import Principal
from armory.errors import ArmoryError, AuthenticationFailed, InsufficientScope, UpstreamUnavailable
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.gateway import Gateway
from armory.protocol import codes, jsonrpc
from armory.protocol.errors import Malformed
from armory.security.authentication import Authenticator
from armory.tasks import step_by_step
from armory.wire.audited import OnDenied
from armory.wire.caller import Caller
from armory.wire.http.admitted import AdmittedRequest, accepts, query_parameters, refusal
from armory.wire.http.answers import JsonAnswer
from armory.wire.http.body import BodyReader
from armory.wire.http.host_checks import HostChecks, cors_headers, preflight_headers
from armory.wire.http.resources import ProtectedResources

_GONE = 499
"""The client went away before its answer began; nobody reads this."""
_RETRY_AFTER_S = "5"
_TOO_LARGE = 413
Kind = Literal["all", "set", "server"]
Reason = Literal["host", "origin", "credential", "scope", "endpoint", "unavailable", "body"]
"""Why a request is refused: its Host or Origin, no valid credential, one without the scope, no such
endpoint, a service that is needed to decide is unavailable, a body that is too large."""
REASONS: tuple[Reason, ...] = get_args(Reason)
Serve = Callable[[AdmittedRequest], Awaitable[web.StreamResponse]]


class RequestRejected(Exception):
    """The request has been answered and is not to be served; without a reason it does not count as
    rejected.

    Args:
        response: what it is answered.
        reason: why it is refused.
        principal: who asked, where the credential is good.
    """

    def __init__(
        self,
        response: web.StreamResponse,
        reason: Reason | None = None,
        principal: Principal | None = None,
    ) -> None:
        super().__init__()
        self.response = response
        self.reason: Reason | None = reason
        self.principal = principal


class Admission:
    """Admits requests.

    Args:
        hosts: which Host and Origin values are taken.
        authenticator: who is it.
        gateway: which endpoints there are, and for whom.
        resources: the endpoints as resources of OAuth.
        bodies: read what a request is that has to wait for its upstream.
        on_denied: called for each request that is refused.
        before_refusal: awaited, with the connection, before such a request is answered.

    Attributes:
        refused: how many were not let in, by reason.
    """

    def __init__(
        self,
        hosts: HostChecks,
        authenticator: Authenticator,
        gateway: Gateway,
        resources: ProtectedResources,
        bodies: BodyReader,
        on_denied: OnDenied | None = None,
        before_refusal: Callable[[object], Awaitable[None]] | None = None,
    ) -> None:
        self.refused: Counter[Reason] = Counter()
        self._on_denied = on_denied
        self._before_refusal = before_refusal
        self._hosts = hosts
        self._resources = resources
        self._bodies = bodies
        self._authenticator = authenticator
        self._gateway = gateway

    async def serve(self, kind: Kind, request: web.Request, serve: Serve) -> web.StreamResponse:
        """Admit a request and have it served, or answer why not."""
        try:
            admitted = await self._admit(kind, request)
        except RequestRejected as rejected:
            return await self._rejected(rejected, request)
        try:
            if self.outdated(admitted):  # meanwhile: nobody ends what has not begun
                await self.confirm(admitted)
            answer = await serve(admitted)
        except RequestRejected as rejected:  # it may not come in any more
            return await self._rejected(rejected, request)
        except Malformed as bad:
            return refusal(400, bad.code, bad.message, id=bad.id, headers=admitted.extra)
        except ConnectionResetError:
            transport = request.transport
            if transport is not None and not transport.is_closing():
                raise
            return web.Response(status=_GONE)
        if answer.status == _TOO_LARGE:
            self.refused["body"] += 1
        return answer

    async def _rejected(
        self, rejected: RequestRejected, request: web.Request
    ) -> web.StreamResponse:
        if rejected.reason is not None:
            self.refused[rejected.reason] += 1
        if self._on_denied is not None and request.method != "OPTIONS":
            remote, _ = self._hosts.seen_as(request.remote, request.headers)
            code = f"http_{rejected.response.status}"
            self._on_denied(request.path, remote, code, rejected.principal)
        if self._before_refusal is not None:
            await self._before_refusal(request.protocol)
        return rejected.response

    def outdated(self, admitted: AdmittedRequest) -> bool:
        """Whether credentials have ended since a request was admitted, so that `confirm` must
        check. Cheap, since it is hardly ever so.
        """
        return admitted.endings != self._authenticator.endings

    async def confirm(self, admitted: AdmittedRequest) -> None:
        """Authenticate again if credentials have ended since a request was admitted: its body may
        have come late, or an upstream was waited for.

        Raises:
            RequestRejected: whoever asks may not come in any more.
        """
        while admitted.endings != (now := self._authenticator.endings):
            await self._authenticated(admitted.request, admitted.extra)
            admitted.endings = now  # not before: who asks meanwhile waits as well

    async def caller(self, request: web.Request) -> Principal | None:
        """The caller of a request that needs no credential; None: unknown.

        Raises:
            RequestRejected: not from this host.
        """
        _, host = self._hosts.seen_as(request.remote, request.headers)
        if not self._hosts.host_allowed(host):
            raise RequestRejected(refusal(403, codes.INVALID_REQUEST, "this Host is not allowed"))
        try:
            resource = self._resources.whole(request)
            return await self._authenticator.authenticate(request.headers, resource)
        except ArmoryError:
            return None

    async def _admit(self, kind: Kind, request: web.Request) -> AdmittedRequest:
        headers = request.headers
        hosts = self._hosts
        remote, host = hosts.seen_as(request.remote, headers)
        if not hosts.host_allowed(host):
            message = f"Host {host!r} is not allowed; add it to server.allowed_hosts"
            raise RequestRejected(refusal(403, codes.INVALID_REQUEST, message), "host")
        extra: dict[str, str] = {}
        origin = headers.get("Origin")
        if origin is not None:
            if not hosts.origin_allowed(origin):
                message = f"Origin {origin!r} is not allowed; add it to server.allowed_origins"
                raise RequestRejected(refusal(403, codes.INVALID_REQUEST, message), "origin")
            extra = cors_headers(origin)
        if request.method == "OPTIONS":
            raise RequestRejected(preflight(origin, request))
        endings = self._authenticator.endings
        principal = await self._authenticated(request, extra)
        endpoint = self._endpoint(kind, request, principal)
        if endpoint is None:
            await self._refuse_not_ready(kind, request, principal, extra)
            message = (
                f"there is no MCP endpoint {request.path!r}; /.well-known/mcp.json names those "
                "that there are"
            )
            gone = refusal(404, codes.INVALID_REQUEST, message, headers=extra)
            raise RequestRejected(gone, "endpoint", principal)
        connection = request.protocol
        if hasattr(connection, "caller"):
            setattr(connection, "caller", principal.person)  # noqa: B010 what the server gave it
        pages = self._resources.pages_at(request)
        caller = Caller(principal, endpoint, headers, query_parameters(request), remote, pages)
        takes_json, takes_sse = accepts(headers.get("Accept"))
        return AdmittedRequest(request, connection, caller, extra, takes_json, takes_sse, endings)

    async def _authenticated(self, request: web.Request, extra: Mapping[str, str]) -> Principal:
        headers = request.headers
        reason: Reason = "unavailable"
        known: Principal | None = None
        try:
            resource = self._resources.own(request)
            return await self._authenticator.authenticate(headers, resource)
        except (AuthenticationFailed, InsufficientScope) as failure:
            metadata_url = self._resources.metadata_url(request)
            challenge = self._authenticator.challenge(failure, headers, metadata_url)
            status, reason = 401, "credential"
            if isinstance(failure, InsufficientScope):
                status, reason, known = 403, "scope", failure.principal
            every = {**extra, "WWW-Authenticate": challenge}
            response = _refused(status, codes.INVALID_REQUEST, failure, every)
        except ArmoryError as failure:
            response = _refused(503, codes.BACKEND, failure, extra)
        raise RequestRejected(response, reason, known)

    async def _refuse_not_ready(
        self, kind: Kind, request: web.Request, principal: Principal, extra: dict[str, str]
    ) -> None:
        name = request.match_info.get("name", "")
        if kind == "server" and self._gateway.awaits(name, principal):
            failure = UpstreamUnavailable(
                f"upstream {name!r} is not ready yet: it has given no list so far; administrators "
                "see why in `armory status`",
                upstream=name,
            )
            headers = {**extra, "Retry-After": _RETRY_AFTER_S}
            id = await self._id_of(request)
            answer = _refused(503, codes.UNAVAILABLE, failure, headers, id)
            raise RequestRejected(answer, "unavailable", principal)

    async def _id_of(self, request: web.Request) -> bytes:
        """The id in a request's body, for the error answer; null: none."""
        if request.method != "POST":
            return jsonrpc.NULL
        try:
            body = self._bodies.arrived(request)
            if body is None:
                body = await self._bodies.read(request)
            message = await step_by_step(jsonrpc.decoding(body or b""))
            return message.key or jsonrpc.NULL
        except Malformed as bad:
            return bad.id
        except ConnectionResetError:
            return jsonrpc.NULL

    def _endpoint(self, kind: Kind, request: web.Request, principal: Principal) -> Endpoint | None:
        if kind == "all":
            return ALL
        name = request.match_info["name"]
        return self._gateway.view.endpoint_for(principal, kind, name)


def _refused(
    status: int,
    code: int,
    failure: ArmoryError,
    headers: Mapping[str, str],
    id: bytes = jsonrpc.NULL,
) -> JsonAnswer:
    data = {"code": failure.code}
    if isinstance(failure, UpstreamUnavailable):
        data["upstream"] = failure.upstream
    return refusal(status, code, failure.told, id=id, data=data, headers=headers)


def preflight(origin: str | None, request: web.Request) -> web.Response:
    """The answer to `OPTIONS`; `origin`: of an allowed page, None: not allowed."""
    if origin is None:
        return web.Response(status=204, headers={"Allow": "GET, POST, DELETE, OPTIONS"})
    asked = request.headers.get("Access-Control-Request-Headers")
    return web.Response(status=204, headers=preflight_headers(origin, asked))
