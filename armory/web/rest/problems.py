"""One shape for every error of the REST API: `application/problem+json` (RFC 9457).

Owns: which error has which status, and its body. Never imports a handler.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import msgspec
from aiohttp import web

from armory.accounts.names import AlreadyExists
from armory.accounts.plans import PlanSpent, Standing
from armory.errors import (
    AccessDenied,
    ArmoryError,
    AuthenticationFailed,
    BackendError,
    InvalidRequest,
    LoginNeeded,
    RateLimited,
    UnknownTool,
    UpstreamTimeout,
    UpstreamUnavailable,
)

PROBLEM_JSON = "application/problem+json"
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Already exists",
    412: "Changed meanwhile",
    413: "Body too large",
    415: "Unsupported content type",
    422: "Invalid parameter",
    428: "Precondition needed",
    429: "Too many requests",
    500: "Internal error",
    503: "Not available",
    504: "Timed out",
}


class Problem(Exception):
    """An error answer.

    Attributes:
        status: HTTP status.
        code: stable, machine-readable kind.
        detail: for people.
        parameter: the offending parameter, if one is.
        headers: to be sent with it.
        more: further members of the body.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.parameter = parameter
        self.headers = dict(headers or {})
        self.more = dict(more or {})


_STATUS: tuple[tuple[type[ArmoryError], int], ...] = (
    (AlreadyExists, 409),
    (InvalidRequest, 422),
    (AuthenticationFailed, 401),
    (AccessDenied, 403),
    (UnknownTool, 404),
    (RateLimited, 429),
    (UpstreamTimeout, 504),
    (UpstreamUnavailable, 503),
    (LoginNeeded, 503),
    (BackendError, 503),
)


def limit_headers(standing: Standing | None) -> dict[str, str]:
    """X-RateLimit-* of a user with a limit."""
    if standing is None or standing.queries_limit is None:
        return {}
    return _limits(standing.queries_limit, standing.remaining or 0, standing.resets_at_s)


def _limits(limit: int, remaining: int, resets_at_s: int) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(resets_at_s),
    }


def problem_of(error: ArmoryError) -> Problem:
    """The problem for one of Armory's errors."""
    status = next((s for kind, s in _STATUS if isinstance(error, kind)), 500)
    headers: dict[str, str] = {}
    if status in {429, 503} and not error.lasts:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s or 1)))
    if isinstance(error, PlanSpent):
        headers |= limit_headers(error.standing)
    elif isinstance(error, RateLimited) and error.limit is not None:
        resets_at_s = math.ceil(time.time() + (error.retry_after_s or 0))
        headers |= _limits(error.limit, 0, resets_at_s)
    detail = error.told if status != 500 else "something went wrong inside; see the log"
    return Problem(
        status,
        error.code,
        detail,
        parameter=getattr(error, "parameter", None),
        headers=headers,
    )


def problem_response(problem: Problem, request_id: str) -> web.Response:
    """The HTTP response for a problem."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": TITLES.get(problem.status, "Error"),
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "request_id": request_id,
    }
    if problem.parameter is not None:
        body["parameter"] = problem.parameter
    body |= problem.more
    return web.Response(
        status=problem.status,
        body=msgspec.json.encode(body),
        headers={"Content-Type": PROBLEM_JSON, "X-Request-ID": request_id, **problem.headers},
    )


def answered_overdue(request: web.Request) -> bool:
    """Whether a request that is being cancelled still gets an answer (`GatewayEnds`), because its
    client is connected. If so, its task is uncancelled.
    """
    if not getattr(request.protocol, "overdue", False):
        return False
    request.task.uncancel()
    return True


def not_found(what: str) -> Problem:
    """The answer for things that do not exist and for those that the caller may not
    see: the same.
    """
    return Problem(404, "unknown", f"there is no such {what}")
