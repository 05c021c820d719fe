"""Parsing of HTTP bodies and SSE events into JSON-RPC messages, for both eras.

Owns: finding the answer to a request among the messages, and what unreadable ones cost. Never
imports a link.
"""

from __future__ import annotations

from armory.errors import ArmoryError
from armory.http1.eventstream import Event, EventTooLarge
from armory.http1.failing import broken
from armory.http1.reading import BodyTooLarge
from armory.protocol.codes import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
    SESSION_NOT_FOUND,
)
from armory.protocol.jsonrpc import error_of
from armory.protocol.meta import PROTOCOL_VERSION
from armory.protocol.rawjson import excerpt
from armory.protocol.upstream_messages import (
    AT_ONCE_BYTES,
    UnreadableMessage,
    UpstreamMessage,
    decode,
    decoding,
    own_id,
)
from armory.tasks import step_by_step
from armory.upstreams.session.budget import Budget
from armory.upstreams.transports.error_bodies import is_message
from armory.upstreams.transports.http_failures import blames_session, http_failure

_OF_THE_TRANSPORT = (-32000, SESSION_NOT_FOUND)
"""Codes with which transports refuse a request that no method has seen."""


def stream_errors() -> tuple[type[Exception], ...]:
    """The exceptions that end the reading of an event stream, for `except`."""
    return (*broken(), EventTooLarge, BodyTooLarge, ArmoryError)


async def messages_in(event: Event, budget: Budget) -> list[UpstreamMessage]:
    """The messages in one event; none in events that only carry an id. A malformed message costs
    only its own event.
    """
    at_once = len(event.data) <= AT_ONCE_BYTES
    if at_once and (not event.data or event.data.isspace()):
        budget.notification(max(len(event.data), event.skipped_bytes))
        return []
    try:
        found = decode(event.data) if at_once else await step_by_step(decoding(event.data))
    except UnreadableMessage as garbage:
        budget.garbage(garbage, len(event.data))
        return []
    if not found:
        budget.nuisance(len(event.data))
    return found


async def answer_in(
    body: bytes | bytearray, request_id: int, server: str, status: int
) -> UpstreamMessage:
    """The answer in a JSON body.

    Raises:
        HttpFailure: the body is none, and the status says that something went wrong; or the
            status asks for a login, whatever the body is.
        UnreadableMessage: the body is none, and the status says that all is well.
    """
    for message in await messages_of(body, server, status):
        if message.method is None and (
            own_id(message.id) == request_id or (message.id is None and message.failed)
        ):
            return message
    if status < 300:
        raise UnreadableMessage(f"its body does not answer the request: {excerpt(body)}")
    raise http_failure(server, status, body)


async def messages_of(body: bytes | bytearray, server: str, status: int) -> list[UpstreamMessage]:
    """The messages in a JSON body.

    Raises:
        HttpFailure: there is none, and the status says that something went wrong; or the status
            asks for a login, whatever the body is.
        UnreadableMessage: there is none, and the status says that all is well.
    """
    if status in (401, 403) or (status >= 400 and not is_message(body)):
        raise http_failure(server, status, body)
    at_once = len(body) <= AT_ONCE_BYTES
    try:
        return decode(body) if at_once else await step_by_step(decoding(body))
    except UnreadableMessage:
        if status < 300:
            raise
        raise http_failure(server, status, body) from None


def session_over(status: int, body: bytes | bytearray, request_id: int) -> bool:
    """Whether an HTTP error means that the server does not know the session (rather than that the
    call or its credential is wrong), or that it has become modern only.
    """
    if status not in (400, 404, 410) and not blames_session(status, body):
        return False
    try:
        for message in decode(body):
            if own_id(message.id) == request_id:
                return _knows_no_session(message, status)
    except UnreadableMessage:
        pass  # plain words, as mcp-go has them
    return status in (404, 410) or b"session" in body.lower()


def _misses_modern(message: UpstreamMessage) -> bool:
    """Whether an error asks for what only modern requests carry."""
    if not message.failed:
        return False
    error = error_of(message.error)
    missing = error.code == INVALID_PARAMS and PROTOCOL_VERSION in error.message
    return missing or error.code in MODERN_ERRORS


def _knows_no_session(message: UpstreamMessage, status: int) -> bool:
    """Whether an HTTP error with the request's own id is about the session. Servers that map every
    error to an HTTP status send a 400 for wrong arguments, a 404 for unknown methods and resources.
    """
    if status == 400 and _misses_modern(message):
        return True
    if not message.failed:
        return False
    error = error_of(message.error)
    about = "session" in error.message.lower()
    if status == 400:
        return about and error.code in _OF_THE_TRANSPORT
    return (about or error.code == SESSION_NOT_FOUND) and error.code != METHOD_NOT_FOUND
