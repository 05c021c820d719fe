"""Builds the `ClientRequest` of a client's message.

Owns: what a request takes from its `_meta` or from its session. Never imports a
transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.gateway.requests import ClientRequest
from armory.protocol.meta import CLIENT_CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN
from armory.protocol.rawjson import text_of
from armory.wire.caller import Caller
from armory.wire.channels import RequestChannel, Write
from armory.wire.eras.handshakes import capabilities_of
from armory.wire.sessions.session import Session, SessionChannel
from armory.wire.streams import Outlet


def _token(meta: Mapping[str, Raw]) -> Raw | None:
    """The progress token, a string or an integer; None: there is none."""
    raw = meta.get(PROGRESS_TOKEN)
    if raw is None:
        return None
    text = bytes(memoryview(raw))
    return raw if text[:1] == b'"' or text.removeprefix(b"-").isdigit() else None


def modern_request(
    caller: Caller, version: str, meta: Mapping[str, Raw], write: Write, id: bytes = b""
) -> ClientRequest:
    """The context of a self-contained request.

    Args:
        caller: whose it is.
        version: the revision that it names.
        meta: members of its `_meta`.
        write: puts messages that come before the result on the way to the client.
        id: its JSON-RPC id, as JSON.
    """
    return ClientRequest(
        principal=caller.principal,
        client=RequestChannel(
            write,
            capabilities_of(meta.get(CLIENT_CAPABILITIES)),
            text_of(meta, LOG_LEVEL),
            _token(meta),
        ),
        era="modern",
        version=version,
        endpoint=caller.endpoint,
        meta=meta,
        headers=caller.headers,
        url=caller.url,
        id=id,
        remote=caller.remote,
        origin=caller.origin,
    )


def session_request(
    caller: Caller,
    session: Session,
    stream: Outlet,
    meta: Mapping[str, Raw],
    id: bytes = b"",
) -> ClientRequest:
    """The context of a request within a session.

    Args:
        caller: whose it is.
        session: what its handshake said.
        stream: takes messages that come before the result.
        meta: members of its `_meta`.
        id: its JSON-RPC id, as JSON.
    """
    return ClientRequest(
        principal=caller.principal,
        client=SessionChannel(session, stream, _token(meta)),
        era="legacy",
        version=session.version,
        endpoint=caller.endpoint,
        session=session,
        meta=meta,
        headers=caller.headers,
        url=caller.url,
        id=id,
        remote=caller.remote,
        origin=caller.origin,
    )
