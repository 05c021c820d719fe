"""The path of a REST request: host and origin checks, authentication, limits, handler, errors.

Owns: request ids, Host and Origin, authentication, access, errors; `reading` has what was sent.
Never knows what a route does.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
from aiohttp import web
from pydantic import BaseModel

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import (
    AccessDenied,
    ArmoryError,
    AuthenticationFailed,
    GatewayEnds,
    InsufficientScope,
)
from armory.logger import Logger
from armory.observability.operation import CURRENT
from armory.security.authentication import ADMIN
from armory.security.expiry import while_authorized
from armory.web.observed import RequestState, note, of_a_call, recorded, traced
from armory.web.rest.problems import Problem, answered_overdue, problem_of, problem_response
from armory.web.rest.reading import path_part, read_body, read_params, receive_body
from armory.web.rest.routes import Reply, RestCall, Route
from armory.web.rest.services import RestServices

_log = Logger(__name__)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY = re.compile(r"acx_[A-Za-z0-9_-]{8,}")
_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
CLIENT_LEFT = 499
"""The status under which cancelled requests count, as with nginx; nothing is answered."""


def request_id_of(request: web.Request) -> str:
    """The caller's own request id where it is harmless, else a new one."""
    given = request.headers.get("X-Request-ID", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid4().hex


async def serve(services: RestServices, route: Route, request: web.Request) -> web.StreamResponse:
    """Answer one request to `route`."""
    asked = RequestState()
    token = CURRENT.set(asked.operation) if services.audit is not None else None
    try:
        with traced(services.tracing, route, request, asked):
            response = await _answer(services, route, request, asked)
            asked.status, asked.answered = response.status, of_a_call(route, response)
    finally:
        if token is not None:
            CURRENT.reset(token)
        if services.audit is not None and recorded(route, asked):
            await note(services.audit, route, request, asked)
        if services.answered is not None:
            took_s = time.perf_counter() - asked.started
            status = asked.status or CLIENT_LEFT
            services.answered(route.method, route.path, status, took_s)
    return response


async def _answer(
    services: RestServices, route: Route, request: web.Request, asked: RequestState
) -> web.StreamResponse:
    request_id = request_id_of(request)
    cors: dict[str, str] = {}
    try:
        cors = _check_origin(services, request)
        call = await _call(services, route, request, request_id, asked, cors)
        done = await _handled(services, route, call, request)
    except Problem as problem:
        failed = problem.with_traceback(None)  # which would hold this frame
    except asyncio.CancelledError:
        if not answered_overdue(request):
            raise
        failed = problem_of(GatewayEnds())
    except (AuthenticationFailed, InsufficientScope) as error:
        failed = problem_of(error)
        failed.headers["WWW-Authenticate"] = _challenge(services, request, error)
    except ArmoryError as error:
        failed = problem_of(error)
        if failed.status >= 500:
            _log.rate_limited(
                "warning", "rest_failed", request_id=request_id, code=error.code, error=str(error)
            )
    except Exception:  # noqa: BLE001 one request's bug must not show its insides nor end the connection
        _log.rate_limited(
            "error", "rest_crashed", request_id=request_id, route=route.operation, exc_info=True
        )
        failed = Problem(500, "internal", "something went wrong inside; see the log")
    else:
        if isinstance(done, web.StreamResponse):
            return done
        response = _response(done, request_id)
        response.headers.update(cors)
        return response
    asked.code = failed.code
    response = problem_response(failed, request_id)
    response.headers.update(cors)
    return response


async def _handled(
    services: RestServices, route: Route, call: RestCall, request: web.Request
) -> Reply | web.StreamResponse:
    if not route.counts:
        return await route.handler(call)
    # an upstream is called, which may take long: it ends if the caller loses access meanwhile
    ask = partial(_authenticated, services, request)
    async with while_authorized(services.authenticator, ask):
        return await route.handler(call)


def refuse_method(services: RestServices, allowed: str, request: web.Request) -> web.Response:
    """The answer for a method that a path does not have, including CORS preflights."""
    request_id = request_id_of(request)
    try:
        cors = _check_origin(services, request)
    except Problem as problem:
        return problem_response(problem, request_id)
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        asked = request.headers.get("Access-Control-Request-Headers", "Authorization, Content-Type")
        headers = {**cors, "Access-Control-Allow-Methods": allowed}
        headers |= {"Access-Control-Allow-Headers": asked, "Access-Control-Max-Age": "600"}
        return web.Response(status=204, headers=headers)
    problem = Problem(
        405, "method_not_allowed", f"expected one of: {allowed}", headers={"Allow": allowed, **cors}
    )
    return problem_response(problem, request_id)


def _check_origin(services: RestServices, request: web.Request) -> dict[str, str]:
    """The CORS headers of the answer.

    Raises:
        Problem: requests under this Host, or from pages of this Origin, are refused.
    """
    gate = services.gate
    if gate is None:
        return {}
    _, host = gate.seen_as(request.remote, request.headers)
    if not gate.host_allowed(host):
        raise Problem(403, "access_denied", "this Host is not in server.allowed_hosts")
    origin = request.headers.get("Origin")
    if origin is None:
        return {}
    if not gate.origin_allowed(origin) and not _own_page(origin, host, request):
        raise Problem(403, "access_denied", "this Origin is not in server.allowed_origins")
    exposed = "X-Request-ID, Retry-After, WWW-Authenticate, X-RateLimit-Limit"
    exposed += ", X-RateLimit-Remaining, X-RateLimit-Reset"
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": exposed,
        "Vary": "Origin",
    }


def _own_page(origin: str, host: str | None, request: web.Request) -> bool:
    """Whether the page comes from this gateway, as the console does.

    A page whose host name was rebound to this address looks the same, but has no credential.
    """
    if host is None or "Authorization" not in request.headers:
        return False
    scheme, _, name = origin.lower().partition("://")
    return scheme in ("http", "https") and name == host.lower()


async def _call(
    services: RestServices,
    route: Route,
    request: web.Request,
    request_id: str,
    asked: RequestState,
    cors: Mapping[str, str],
) -> RestCall:
    for name, value in request.query.items():
        if name != "query" and _KEY.search(value):
            raise Problem(
                400,
                "credential_in_url",
                "an API key in a URL ends up in logs: revoke it, and send the next one as "
                "`Authorization: Bearer`",
                parameter=name[:40],
            )
    endings = services.authenticator.endings
    principal = await _principal(services, route, request, asked)
    path = {name: path_part(name, value) for name, value in request.match_info.items()}
    params = None if route.params is None else read_params(route.params, request)
    received = await receive_body(route, request, services.body_bytes, services.json_depth)
    body = await read_body(route, received)
    while route.access != "public" and endings != services.authenticator.endings:
        endings = services.authenticator.endings  # while the body came, perhaps this one ended
        await _authenticated(services, request)
    asked.body = received
    return RestCall(services, principal, request_id, path, params, body, request, cors)


async def _principal(
    services: RestServices, route: Route, request: web.Request, asked: RequestState
) -> Principal:
    if route.access == "public":
        return ANONYMOUS
    remote = request.remote
    if services.gate is not None:
        remote, _ = services.gate.seen_as(request.remote, request.headers)
    asked.remote = remote
    try:
        asked.principal = principal = await _authenticated(services, request)
    except InsufficientScope as failure:
        asked.principal = failure.principal
        raise
    if hasattr(request.protocol, "caller"):
        setattr(request.protocol, "caller", principal.person)  # noqa: B010 what the server gave it
    if route.accounts and not services.accounts.enabled:
        raise Problem(404, "accounts_disabled", "accounts are off; see accounts.enabled")
    if route.access == "admin" and ADMIN not in principal.scopes:
        raise AccessDenied("this needs a credential with the scope `admin`")
    if route.access == "user" and principal.user is None and ADMIN not in principal.scopes:
        raise AccessDenied("this needs a credential that belongs to a user")
    if services.take is not None and not route.counts:
        await services.take(principal)
    return principal


async def _authenticated(services: RestServices, request: web.Request) -> Principal:
    resources = services.resources
    resource = resources.whole(request) if resources is not None else None
    return await services.authenticator.authenticate(request.headers, resource)


def _challenge(services: RestServices, request: web.Request, error: ArmoryError) -> str:
    resources = services.resources
    url = resources.metadata_url(request, "/mcp") if resources is not None else None
    return services.authenticator.challenge(error, request.headers, url)


def _response(reply: Reply, request_id: str) -> web.Response:
    headers: Mapping[str, str] = {**_NO_STORE, **reply.headers, "X-Request-ID": request_id}
    if reply.status == 204:
        return web.Response(status=204, headers=headers)
    body = reply.body if isinstance(reply.body, bytes) else encode(reply.body)
    headers = {"Content-Type": "application/json", **headers}
    return web.Response(status=reply.status, body=body, headers=headers)


def encode(value: Any) -> bytes:
    """A JSON value, models and data classes included."""
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")
