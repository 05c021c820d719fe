"""Errors for HTTP error statuses of an upstream.

Owns: `HttpFailure`, reading one from an answer, and what it means for an answer of ours. Never
imports the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from armory.errors import ArmoryError, UpstreamUnavailable
from armory.http1.failing import broken
from armory.http1.reading import Answer
from armory.observability.redaction import redacted, without_parameters
from armory.protocol.headers import retry_after
from armory.protocol.rawjson import excerpt
from armory.upstreams.session.replies import AnswerRefused
from armory.upstreams.transports.error_bodies import error_text

_NEW: ContextVar[bool] = ContextVar("session_is_new", default=False)
_UNHEARD = (401, 403, 413)
"""Statuses of whoever does not look at what was sent: no login, too large."""


class HttpFailure(UpstreamUnavailable):
    """The upstream answered with an HTTP error instead of a message.

    Attributes:
        status: the HTTP status.
        body: the beginning of the body.
    """

    def __init__(
        self,
        server: str,
        status: int,
        body: bytes | bytearray,
        retry_after_s: float | None,
        leads_to: str = "",
    ) -> None:
        hint = f"; check the path of upstreams.{server}.url" if status == 404 else ""
        told = hint
        if leads_to:
            told = "; it leads elsewhere"
            hint = (
                f"; it leads to {_shown(leads_to)!r}, and is not followed: give that as "
                f"upstreams.{server}.url if it is the server"
            )
        said = _answered(status, body)
        answered = said + hint
        super().__init__(
            self._message(server, answered),
            upstream=server,
            retry_after_s=retry_after_s,
            told=self._message(server, said + told),
        )
        self.answered = answered
        self.status = status
        self.body = body

    def _message(self, server: str, answered: str) -> str:
        return f"upstream {server!r} answered {answered}"

    def add(self, what: str) -> None:
        """Say in the message what came of another attempt as well."""
        self.message = f"{self.message}; {what}"
        self.args = (self.message,)


class LoginRequired(HttpFailure):
    """The upstream answered 401 or 403: it requires a login, or another one."""

    code = "login_required"

    def _message(self, server: str, answered: str) -> str:
        return (
            f"upstream {server!r} wants a login: it answered {answered}. Give a token under "
            f"upstreams.{server}.headers, or set upstreams.{server}.auth: {{type: "
            f"authorization_code}} and run `armory login {server}`"
        )


def _answered(status: int, body: bytes | bytearray) -> str:
    if status < 300:
        return f"HTTP {status} and no JSON-RPC message that answers: {redacted(excerpt(body))}"
    text = error_text(body)
    return f"HTTP {status} ({text})" if text else f"HTTP {status}"


def _shown(place: str) -> str:
    """A redirect's address without the parts of a secret that it repeats."""
    return without_parameters(redacted(place[:300]))


def http_failure(
    server: str,
    status: int,
    body: bytes | bytearray,
    retry_after_s: float | None = None,
    leads_to: str = "",
) -> HttpFailure:
    """The error for an HTTP status and the beginning of its body."""
    kind = LoginRequired if status in (401, 403) else HttpFailure
    return kind(server, status, body, retry_after_s, leads_to)


def blames_session(status: int, body: bytes | bytearray) -> bool:
    """Whether a status that asks for a login speaks of the session: earlier releases of the Rust
    SDK and mcp-proxy of npm answer so where they know none. A login that is really missing comes
    out when the next session begins, or at the first call in it (`in_new_session`).
    """
    return status in (401, 403) and b"session" in body.lower() and not _NEW.get()


@contextmanager
def in_new_session() -> Generator[None]:
    """Send within a session that has just begun: the upstream does know it."""
    _NEW.set(True)
    try:
        yield
    finally:
        _NEW.set(False)


def keep_retry_after(error: ArmoryError, response: Answer) -> None:
    """Keep in an error the `Retry-After` of the answer that it was made of, if it has one."""
    if isinstance(error, HttpFailure) and error.retry_after_s is None:
        error.retry_after_s = retry_after(response.headers)


def answer_refused(failure: HttpFailure) -> UpstreamUnavailable:
    """The error for a status that refuses our answer to a question of the upstream. With other
    statuses it may have taken the answer, or have dropped the question and go on with the call.
    """
    status, body = failure.status, failure.body
    if status == 404 or (status == 400 and b"session" in body.lower()):
        why = "its session ended before the answer to its question"
    elif status in _UNHEARD:
        why = f"it refused the answer to its question: {_answered(status, body)}"
    else:
        return failure
    return AnswerRefused(f"upstream {failure.upstream!r}: {why}", upstream=failure.upstream)


async def failure_of(server: str, response: Answer) -> HttpFailure:
    """The error for a response; reads the beginning of its body and closes it."""
    body = b""
    try:
        async with asyncio.timeout(5):
            while len(body) < 65_536 and (chunk := await response.content.readany()):
                body += chunk
    except broken():
        pass
    finally:
        response.close()
    status = response.status
    leads_to = response.headers.get("Location", "") if 300 <= status < 400 else ""
    return http_failure(server, status, body, retry_after(response.headers), leads_to)
