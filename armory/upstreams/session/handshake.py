"""The two handshakes: `server/discover` and `initialize`.

Owns: the requests, and what their answers mean. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.protocol.capabilities import declared_in_sessions
from armory.protocol.codes import MODERN_ERRORS, UNSUPPORTED_VERSION
from armory.protocol.jsonrpc import ErrorObject, error_of
from armory.protocol.link import Call, Reply
from armory.protocol.meta import SERVER_INFO
from armory.protocol.rawjson import NULL, brief, encode, object_of
from armory.protocol.versions import ANSWERED_VERSIONS, LEGACY_VERSIONS, MODERN_VERSIONS
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Identity

_ABOUT_BYTES = 1 << 20
"""What an upstream may say of itself: it is kept, and sent to every client."""


class NotModern(Exception):
    """The upstream gave no sign that it speaks a modern revision."""


class Incompatible(UpstreamUnavailable):
    """The upstream speaks no revision that the gateway (or the pin) allows.

    Attributes:
        refusal: the error that it answered to `initialize`; None where it answered otherwise.
    """

    def __init__(self, message: str, *, upstream: str, refusal: ErrorObject | None = None) -> None:
        super().__init__(message, upstream=upstream)
        self.refusal = refusal


async def discover(session: BaseLink, timeout_s: float) -> Identity:
    """Probe with `server/discover`.

    Raises:
        NotModern: it answered, and not as a modern server would.
        Incompatible: it is modern, of a revision unknown here.
        UpstreamUnavailable: there was no answer.
    """
    reply = await session.request(Call("server/discover", {}, timeout_s=timeout_s))
    return identity_of_discovery(session, reply)


def identity_of_discovery(session: BaseLink, reply: Reply) -> Identity:
    """The identity in an answer to `server/discover`.

    Raises:
        NotModern: see `discover`.
        Incompatible: see `discover`.
    """
    if reply.error is not None:
        error = error_of(reply.error)
        if error.code == UNSUPPORTED_VERSION:
            data: Any = error.data
            named: Any = (
                cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
            )
            supported: list[Any] = cast("list[Any]", named) if isinstance(named, list) else []
            if supported and not any(version in LEGACY_VERSIONS for version in supported):
                raise Incompatible(
                    f"upstream {session.server!r} speaks {str(supported)[:300]}; known here: "
                    f"{[*LEGACY_VERSIONS, *MODERN_VERSIONS]}",
                    upstream=session.server,
                )
        elif error.code in MODERN_ERRORS:
            raise session.unavailable(f"it refused the probe: {error.code} {error.message}")
        raise NotModern(f"{error.code} {error.message}")
    result = _about(session, reply)
    offered = result.get("supportedVersions")
    versions = cast("list[Any]", offered) if isinstance(offered, list) else []
    known = [version for version in MODERN_VERSIONS if version in versions]
    if not known:
        raise NotModern("its supportedVersions name no modern revision")
    meta = _mapping(result.get("_meta"))
    return Identity(
        "modern",
        known[-1],
        _mapping(result.get("capabilities")),
        _mapping(meta.get(SERVER_INFO)) or _mapping(result.get("serverInfo")),
        _text(result.get("instructions")),
    )


async def initialize(
    session: BaseLink, version: str, capabilities: Mapping[str, Any], timeout_s: float | None = None
) -> Identity:
    """Shake hands as a legacy client; the caller sends `notifications/initialized`.

    Raises:
        Incompatible: the upstream refused, or answered with an unknown revision.
        UpstreamUnavailable: there was no answer.
    """
    params = {
        "protocolVersion": Raw(encode(version)),
        "capabilities": Raw(encode(declared_in_sessions(capabilities))),
        "clientInfo": Raw(encode(dict(session.client_info))),
    }
    if session.identity.era != "legacy":
        session.identity = Identity("legacy", "")
    wait_s = session.spec.connect_timeout_s if timeout_s is None else timeout_s
    reply = await session.request(Call("initialize", params, timeout_s=wait_s))
    return identity_of_initialization(session, reply)


def identity_of_initialization(session: BaseLink, reply: Reply) -> Identity:
    """The identity in an answer to `initialize`.

    Raises:
        Incompatible: see `initialize`.
    """
    if reply.error is not None:
        error = error_of(reply.error)
        raise Incompatible(
            f"upstream {session.server!r} refused to initialize: {error.code} {error.message}",
            upstream=session.server,
            refusal=error,
        )
    result = _about(session, reply)
    if not result:
        came = NULL if reply.result is None else reply.result
        raise Incompatible(
            f"upstream {session.server!r} answered initialize with {brief(came)}; expected an "
            "object with protocolVersion, all of which can be read",
            upstream=session.server,
        )
    version = result.get("protocolVersion")
    if version not in ANSWERED_VERSIONS:
        raise Incompatible(
            f"upstream {session.server!r} answered initialize with revision {brief(version)}; "
            f"known here: {', '.join(LEGACY_VERSIONS)}",
            upstream=session.server,
        )
    return Identity(
        "legacy",
        str(version),
        _mapping(result.get("capabilities")),
        _mapping(result.get("serverInfo")),
        _text(result.get("instructions")),
    )


def _about(session: BaseLink, reply: Reply) -> dict[str, Any]:
    """The upstream's description of itself.

    Raises:
        Incompatible: it says too much.
    """
    size = len(memoryview(reply.result)) if reply.result is not None else 0
    if size > _ABOUT_BYTES:
        raise Incompatible(
            f"upstream {session.server!r} says {size:,} bytes about itself (capabilities, "
            f"serverInfo, instructions); expected {_ABOUT_BYTES:,} at most",
            upstream=session.server,
        )
    return object_of(reply.result)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
