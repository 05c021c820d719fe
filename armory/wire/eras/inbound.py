"""Which era a message is in, and whether a modern request is as its headers and `_meta` say.

Owns: that decision and the checks of the modern revision, in order. Pure; never does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from msgspec import Raw

from armory.protocol import codes
from armory.protocol.headers import METHOD_HEADER, NAME_HEADER, VERSION_HEADER
from armory.protocol.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from armory.protocol.rawjson import brief, text_of, value
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS
from armory.wire.eras.mismatch import explained, task_name


def is_modern(version_header: str | None, meta: Mapping[str, Raw], method: str | None) -> bool:
    """Whether a message is a modern one.

    The `_meta` version key or a version header that no handshake ever negotiated says so;
    `initialize` never does.
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
    header_items: Iterable[tuple[str, str]] = (),
) -> InboundLadderRejection | None:
    """Why a modern request cannot be served; None when nothing is wrong.

    Args:
        method: the body's method.
        version: the revision that `_meta` names; None where it names none.
        params: members of the body's params.
        meta: members of `params._meta`.
        named: the parameter that `Mcp-Name` repeats for this method; None: there is none.
        headers: the HTTP headers, case-insensitive; None where there are none (stdio).
        header_items: the same as raw lines, which alone show duplicates.
    """
    if headers is not None:
        duplicated = find_duplicated_routing_header(header_items)
        if duplicated is not None:
            return InboundLadderRejection(
                codes.HEADER_MISMATCH, f"{duplicated} header appears more than once"
            )
    if version is None or not _clean(method, version, named, params, headers) or not _object(meta):
        folded = None if headers is None else {k.lower(): v for k, v in headers.items()}
        body: dict[str, Any] = {"method": method, "params": {}}
        if "_meta" in params:
            body["params"]["_meta"] = value(params["_meta"])
        if named is not None and named in params:
            body["params"][named] = value(params[named])
        verdict = classify_inbound_request(
            body, headers=folded, supported_modern_versions=MODERN_VERSIONS
        )
        if isinstance(verdict, InboundLadderRejection):
            name = body["params"].get(named)
            in_body = {VERSION_HEADER: version, METHOD_HEADER: method, NAME_HEADER: name}
            return verdict if folded is None else explained(verdict, folded, in_body)
        if not _object(meta):
            return InboundLadderRejection(
                codes.INVALID_PARAMS,
                f"params._meta[{CLIENT_CAPABILITIES}] is {brief(meta[CLIENT_CAPABILITIES])}; "
                "expected an object",
            )
        if named is not None and headers is not None:
            return task_name(named, params, headers)
    return None


def _clean(
    method: str,
    version: str,
    named: str | None,
    params: Mapping[str, Raw],
    headers: Mapping[str, str] | None,
) -> bool:
    """Whether the common case holds: all headers there, plain and equal to the body."""
    if version not in MODERN_VERSIONS:
        return False
    if headers is None:
        return True
    if headers.get(VERSION_HEADER) != version or headers.get(METHOD_HEADER) != method:
        return False
    return named is None or headers.get(NAME_HEADER) == text_of(params, named)


def _object(meta: Mapping[str, Raw]) -> bool:
    raw = meta.get(CLIENT_CAPABILITIES)
    return raw is not None and bytes(memoryview(raw)[:1]) == b"{"


def version_refusal(version: str) -> InboundLadderRejection | None:
    """Why a modern notification's version is not served; None when it is."""
    return unsupported_protocol_version_rejection(version, MODERN_VERSIONS)


def param_refusal(
    schema: Mapping[str, Any], params: Mapping[str, Raw], headers: Mapping[str, str]
) -> InboundLadderRejection | None:
    """Why the `Mcp-Param-*` headers of a call do not fit its arguments; None when they do."""
    raw = params.get("arguments")
    arguments: Any = value(raw) if raw is not None else {}
    if not isinstance(arguments, dict):
        arguments = {}
    return validate_mcp_param_headers(schema, arguments, headers)  # pyright: ignore
