"""Detects a message's era, and validates modern requests against their headers and `_meta`.

Owns: that decision and the order of the modern revision's checks. Pure; never does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.protocol import codes
from armory.protocol.errors import RpcError
from armory.protocol.headers import METHOD_HEADER, NAME_HEADER, VERSION_HEADER
from armory.protocol.meta import CLIENT_CAPABILITIES, LOG_LEVEL, PROTOCOL_VERSION
from armory.protocol.methods import LOG_LEVELS
from armory.protocol.rawjson import NULL, brief, text_of, text_or_none
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS
from armory.wire.eras.handshakes import CAPABILITIES_BYTES, within_bounds
from armory.wire.eras.mismatch import mismatch, repeated


def is_modern(version_header: str | None, meta: Mapping[str, Raw], method: str | None) -> bool:
    """Whether a message is a modern one.

    It is if it has the version key in `_meta`, or a version header that no handshake ever
    negotiated; `initialize` never is.
    """
    if method == "initialize" and PROTOCOL_VERSION not in meta:
        return version_header in MODERN_VERSIONS
    if PROTOCOL_VERSION in meta:
        return True
    return version_header is not None and version_header not in LEGACY_VERSIONS


def refusal(
    method: str,
    version: str | None,
    params: Mapping[str, Raw],
    meta: Mapping[str, Raw],
    named: str | None,
    headers: Mapping[str, str] | None,
) -> RpcError | None:
    """The error for an invalid modern request; None when nothing is wrong.

    Args:
        method: the body's method.
        version: the revision that `_meta` names; None where it names none.
        params: members of the body's params.
        meta: members of `params._meta`.
        named: the parameter that `Mcp-Name` repeats for this method; None: there is none.
        headers: the HTTP headers, case-insensitive, every line of them; None where there are none
            (stdio).
    """
    if headers is not None:
        twice = repeated(headers)
        if twice is not None:
            return twice
    if _is_usual(method, version, named, params, headers) and _is_sound(meta):
        return None
    missing = [key for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES) if key not in meta]
    if missing:
        lacking = ", ".join(missing)
        return RpcError(codes.INVALID_PARAMS, f"params._meta lacks what it must have: {lacking}")
    if headers is not None:
        wrong = mismatch(headers, meta[PROTOCOL_VERSION], method, named, params)
        if wrong is not None:
            return wrong
    if version is None:
        return _bad_meta(PROTOCOL_VERSION, meta, "a string")
    if version not in MODERN_VERSIONS:
        return version_refusal(version)
    return _unsound(meta)


def _is_usual(
    method: str,
    version: str | None,
    named: str | None,
    params: Mapping[str, Raw],
    headers: Mapping[str, str] | None,
) -> bool:
    """Whether the common case holds: all headers present, plain and equal to the body."""
    if version not in MODERN_VERSIONS:
        return False
    if headers is None:
        return True
    if headers.get(VERSION_HEADER) != version or headers.get(METHOD_HEADER) != method:
        return False
    if named is None:
        return True
    name = headers.get(NAME_HEADER)
    return name is not None and name == text_of(params, named)


def _is_sound(meta: Mapping[str, Raw]) -> bool:
    return _has_capabilities(meta) and (LOG_LEVEL not in meta or _is_level(meta[LOG_LEVEL]))


def _has_capabilities(meta: Mapping[str, Raw]) -> bool:
    raw = meta.get(CLIENT_CAPABILITIES)
    return raw is not None and within_bounds(raw) and bytes(memoryview(raw)[:1]) == b"{"


def _unsound(meta: Mapping[str, Raw]) -> RpcError | None:
    if not _has_capabilities(meta):
        expected = f"an object of {CAPABILITIES_BYTES:,} bytes at most"
        return _bad_meta(CLIENT_CAPABILITIES, meta, expected)
    if not _is_level(meta.get(LOG_LEVEL)):
        return _bad_meta(LOG_LEVEL, meta, f"one of {', '.join(LOG_LEVELS)}")
    return None


def _is_level(raw: Raw | None) -> bool:
    """Whether it is a known log level, or none."""
    return raw is None or raw == NULL or text_or_none(raw) in LOG_LEVELS


def _bad_meta(key: str, meta: Mapping[str, Raw], expected: str) -> RpcError:
    shown = brief(meta[key])
    return RpcError(codes.INVALID_PARAMS, f"params._meta[{key}] is {shown}; expected {expected}")


def version_refusal(version: str) -> RpcError | None:
    """The error for an unsupported version; None when it is supported."""
    if version in MODERN_VERSIONS:
        return None
    data = {"supported": list(MODERN_VERSIONS), "requested": version}
    return RpcError(codes.UNSUPPORTED_VERSION, "Unsupported protocol version", data)
