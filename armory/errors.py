"""Armory's errors, one class per way of failing, each with a stable code.

Owns: the exception hierarchy that crosses floors. Never imports anything but the standard library.
A tool's own failure is a result (`isError: true`), never one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class ArmoryError(Exception):
    """Base of every error that Armory raises on purpose.

    Attributes:
        code: stable, machine-readable kind; part of the public contract.
        retry_after_s: seconds after which trying again makes sense; None when it does not.
        lasts: whether trying again is of no use until a person has changed something.
        told: the message for callers: without addresses inside and places on this machine, which
            are for administrators. The message itself, where it has none of these.
    """

    code: ClassVar[str] = "internal"
    lasts: ClassVar[bool] = False

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, told: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.told = message if told is None else told


class ConfigError(ArmoryError):
    """The configuration cannot be used. `path` is the YAML path of the offending value."""

    code = "config"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class InvalidRequest(ArmoryError):
    """The caller's input is invalid. `parameter` names the offending part."""

    code = "invalid_request"

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class AuthenticationFailed(ArmoryError):
    """No valid credential came with the request (HTTP 401)."""

    code = "authentication_failed"


class AccessDenied(ArmoryError):
    """The principal may not do this (HTTP 403). Names the kind of object, never the object."""

    code = "access_denied"


class InsufficientScope(AccessDenied):
    """The credential lacks scopes that every request needs. `scopes` lists all needed scopes;
    `principal` (`domain.principal`) is the credential's owner.
    """

    code = "insufficient_scope"

    def __init__(self, message: str, *, scopes: Sequence[str], principal: Any) -> None:
        super().__init__(message)
        self.scopes = tuple(scopes)
        self.principal = principal


class UnknownTool(ArmoryError):
    """No such tool, prompt or resource for this principal; the message is the same for hidden ones.

    `nearest` are names that the principal may use and that come near.
    """

    code = "unknown"

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nearest = tuple(nearest)


class RateLimited(ArmoryError):
    """A rate limit or quota is used up; `retry_after_s` says when to come back.

    Attributes:
        limit: requests that the caller may make at once; None: this is no limit of requests.
    """

    code = "rate_limited"

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, limit: int | None = None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.limit = limit


class QuotaExceeded(RateLimited):
    """A daily quota or concurrency limit of the caller is used up."""

    code = "quota_exceeded"


class UpstreamUnavailable(ArmoryError):
    """The upstream server is down, its breaker is open, or it died during the call."""

    code = "upstream_unavailable"

    def __init__(
        self,
        message: str,
        *,
        upstream: str = "",
        retry_after_s: float | None = None,
        told: str | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, told=told)
        self.upstream = upstream


class LoginNeeded(ArmoryError):
    """The person must log in to an upstream first; `url` is the login page, if known."""

    code = "login_required"
    lasts = True

    def __init__(self, message: str, *, upstream: str, url: str | None = None) -> None:
        super().__init__(message)
        self.upstream = upstream
        self.url = url


class UpstreamTimeout(UpstreamUnavailable):
    """The upstream did not answer within its deadline."""

    code = "upstream_timeout"


class UpstreamPaused(UpstreamUnavailable):
    """The upstream's breaker is open: it failed too often, and the call was not sent."""


class UpstreamOverloaded(UpstreamUnavailable):
    """The upstream's queue or session cap is full; the call was shed before it was sent."""

    code = "upstream_overloaded"


class BackendError(ArmoryError):
    """A service that Armory depends on (vector store, database, embedding API) failed."""

    code = "backend"


class GatewayEnds(BackendError):
    """The gateway is shutting down, and the request takes longer than the time left."""

    def __init__(self) -> None:
        super().__init__(
            "the gateway ends, and this took longer than it may then (`server.drain_timeout_s`)"
        )
