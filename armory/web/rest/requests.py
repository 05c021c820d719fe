"""From a request to a checked call, and from whatever happens to one answer.

Owns: request ids, Host and Origin, authentication, access, reading parameters and bodies, errors.
Never knows what a route does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

import msgspec
from aiohttp import web
from msgspec import Raw
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from armory.domain.expectations import MAPPING, expectation
from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import AccessDenied, ArmoryError, AuthenticationFailed, InsufficientScope
from armory.logger import Logger
from armory.observability.operation import CURRENT
from armory.protocol.rawjson import members
from armory.web.observed import Asked, note, of_a_call, recorded, traced
from armory.web.rest.problems import Problem, problem_of, problem_response
from armory.web.rest.routes import Reply, RestCall, Route
from armory.web.rest.services import RestServices
from armory.web.rest.shapes import PATTERNS

_log = Logger(__name__)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY = re.compile(r"acx_[A-Za-z0-9_-]{8,}")
_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_LONGEST_PATH_PART = 200
_MOST_VALUES = 10_000
"""Values in a body on routes that are not for administrators alone: validation collects the errors
of all of them."""
_SHOWN_CHARS = 100
CLIENT_LEFT = 499
"""The status under which cancelled requests count, as with nginx; nothing is answered."""


def request_id_of(request: web.Request) -> str:
    """The caller's own id where it is harmless, else a new one."""
    given = request.headers.get("X-Request-ID", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid4().hex


async def serve(services: RestServices, route: Route, request: web.Request) -> web.StreamResponse:
    """Answer one request to `route`."""
    asked = Asked()
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
    services: RestServices, route: Route, request: web.Request, asked: Asked
) -> web.StreamResponse:
    request_id = request_id_of(request)
    cors: dict[str, str] = {}
    try:
        cors = _check_origin(services, request)
        call = await _call(services, route, request, request_id, asked, cors)
        asked.has_body = route.body is not None
        done = await route.handler(call)
    except Problem as problem:
        failed = problem
    except (AuthenticationFailed, InsufficientScope) as error:
        failed = problem_of(error)
        failed.headers["WWW-Authenticate"] = _challenge(services, request, error)
    except ArmoryError as error:
        failed = problem_of(error)
        if failed.status >= 500:
            _log.warning("rest_failed", request_id=request_id, code=error.code, error=str(error))
    except Exception:  # noqa: BLE001 one request's bug must not show its insides nor end the connection
        _log.exception("rest_crashed", request_id=request_id, route=route.operation)
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


def refuse_method(services: RestServices, allowed: str, request: web.Request) -> web.Response:
    """The answer to a method that a path does not have; a browser's preflight included."""
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
    """Whether the page came from this gateway, as the console does.

    A page whose name was bound anew to this address looks the same, and has no credential.
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
    asked: Asked,
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
    principal = await _principal(services, route, request, asked)
    path = {name: _path_part(name, value) for name, value in request.match_info.items()}
    params = None if route.params is None else _params(route.params, request)
    body = None if route.body is None else await _body(services, route, route.body, request)
    return RestCall(services, principal, request_id, path, params, body, request, cors)


async def _principal(
    services: RestServices, route: Route, request: web.Request, asked: Asked
) -> Principal:
    if route.access == "public":
        return ANONYMOUS
    remote = request.remote
    if services.gate is not None:
        remote, _ = services.gate.seen_as(request.remote, request.headers)
    asked.remote = remote
    resources = services.resources
    resource = resources.whole(request) if resources is not None else None
    principal = await services.authenticator.authenticate(request.headers, remote, resource)
    asked.principal = principal
    if route.accounts and not services.accounts.enabled:
        raise Problem(404, "accounts_disabled", "accounts are off; see accounts.enabled")
    if route.access == "admin" and "admin" not in principal.scopes:
        raise AccessDenied("this needs a credential with the scope `admin`")
    if route.access == "user" and principal.user is None and "admin" not in principal.scopes:
        raise AccessDenied("this needs a credential that belongs to a user")
    if services.take is not None and not route.counts:
        await services.take(principal)
    return principal


def _challenge(services: RestServices, request: web.Request, error: ArmoryError) -> str:
    resources = services.resources
    url = resources.metadata_url(request, "/mcp") if resources is not None else None
    return services.authenticator.challenge(error, request.headers, url)


def _path_part(name: str, value: str) -> str:
    if not 1 <= len(value) <= _LONGEST_PATH_PART or not value.isprintable():
        raise Problem(
            422,
            "invalid_request",
            f"{name} in the path: expected 1 to {_LONGEST_PATH_PART} printable characters",
            parameter=name,
        )
    return value


def _params(model: type[BaseModel], request: web.Request) -> BaseModel:
    given: dict[str, Any] = {}
    written = request.rel_url.raw_query_string
    for name, value in parse_qsl(written, keep_blank_values=True, errors="surrogateescape"):
        if name in given:
            raise Problem(422, "invalid_request", "given more than once", parameter=_short(name))
        if not _is_text(name + value):
            said = f"{_short(name)}: expected percent-encoded UTF-8"
            raise Problem(422, "invalid_request", said, parameter=_short(name))
        given[name] = value
    return _validated(model, given)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _body(
    services: RestServices, route: Route, model: type[BaseModel], request: web.Request
) -> BaseModel | dict[str, Raw]:
    if request.content_type != "application/json":
        raise Problem(
            415,
            "unsupported_content_type",
            f"Content-Type is {request.content_type!r}; expected application/json",
        )
    limit = services.body_bytes
    too_large = Problem(413, "body_too_large", f"the body is over {limit:,} bytes")
    if request.content_length is not None and request.content_length > limit:
        raise too_large
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None
    if len(data) > limit:
        raise too_large
    if route.access != "admin" and not route.verbatim and data.count(b",") > _MOST_VALUES:
        said = f"the body has more than {_MOST_VALUES:,} values"
        raise Problem(422, "invalid_request", said, parameter="body")
    try:
        if route.verbatim:
            return _known_members(model, data)
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed_json", f"the body is not JSON ({error})") from None
    return _validated(model, value)


def _known_members(model: type[BaseModel], data: bytes) -> dict[str, Raw]:
    data.decode()  # what passes as it came is checked here
    found = members(data)
    for name in found:
        if name not in model.model_fields:
            known = ", ".join(model.model_fields)
            said = f"{_short(name)}: is not known here; known: {known}"
            raise Problem(422, "invalid_request", said, parameter=_short(name))
    return found


def _validated(model: type[BaseModel], value: object) -> BaseModel:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(_short(str(part)) for part in first["loc"]) or "body"
        said = f"{where}: {_validation_message(model, first)}"
        raise Problem(422, "invalid_request", said, parameter=where) from None


def _validation_message(model: type[BaseModel], error: ErrorDetails) -> str:
    """What is wrong, what came and what is expected."""
    if error["type"] == "missing":
        return "is needed and missing"
    if error["type"] == "extra_forbidden":
        if len(error["loc"]) > 1:
            return "is not known here"
        return f"is not known here; known: {', '.join(model.model_fields)}"
    given = json.dumps(error["input"], default=str)[:_SHOWN_CHARS]
    wanted = expectation(error["type"], error.get("ctx", {}), error["input"], PATTERNS)
    if wanted == MAPPING:
        wanted = "a JSON object"
    if wanted is None:  # a check of Armory's own, which says what it found
        return f"{error['msg'].removeprefix('Value error, ')}; it is {_short(given)}"
    return f"expected {wanted}; it is {_short(given)}"


def _short(name: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in name[:_SHOWN_CHARS])
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


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
