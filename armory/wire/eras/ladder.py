"""Everything that differs between protocol revisions, as pure functions.

Owns: which era a message is in, the modern header and `_meta` ladder, the shape of results and
errors between eras, the handshake answers. Never does I/O; no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from msgspec import Raw

from armory.protocol import codes, jsonrpc
from armory.protocol.client_requests import CAPABILITY
from armory.protocol.hop_meta import completing
from armory.protocol.link import Reply
from armory.protocol.meta import (
    CLIENT_CAPABILITIES,
    HOP_KEYS,
    OWN_PREFIX,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from armory.protocol.rawjson import (
    EMPTY_OBJECT,
    brief,
    encode,
    members_or_none,
    pack,
    text_of,
    value,
)
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS, URL_ELICITATION_SINCE, Era
from armory.wire.eras.mismatch import explained, task_name
from armory.wire.methods import METHODS

_SERVER_INFO = SERVER_INFO.encode()
_LARGE_BYTES = 16 * 1024
"""From here on a result is passed on in parts rather than copied."""
_COMPLETE = Raw(b'"complete"')
_ZERO = Raw(b"0")
_PRIVATE = Raw(b'"private"')
ON_REQUEST_STREAMS = frozenset(
    ("notifications/progress", "notifications/message", "notifications/tasks")
)
"""What may come before a modern request's result; the rest rides `subscriptions/listen`."""


# -- which era ---------------------------------------------------------------------------------


def is_modern(version_header: str | None, meta: Mapping[str, Raw], method: str | None) -> bool:
    """Whether a message climbs the modern ladder.

    The `_meta` version key or a version header that no handshake ever negotiated says so;
    `initialize` never does.
    """
    if method == "initialize" and PROTOCOL_VERSION not in meta:
        return version_header in MODERN_VERSIONS
    if PROTOCOL_VERSION in meta:
        return True
    return version_header is not None and version_header not in LEGACY_VERSIONS


def negotiated(asked: str) -> str:
    """The handshake's answer: the revision asked for, else the newest that has a handshake."""
    return asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[-1]


# -- the modern ladder -------------------------------------------------------------------------


def refusal(
    method: str,
    version: str | None,
    params: Mapping[str, Raw],
    meta: Mapping[str, Raw],
    headers: Mapping[str, str] | None,
    header_items: Iterable[tuple[str, str]] = (),
) -> InboundLadderRejection | None:
    """Why a modern request cannot be served; None when every rung holds.

    Args:
        method: the body's method.
        version: the revision that `_meta` names; None where it names none.
        params: members of the body's params.
        meta: members of `params._meta`.
        headers: the HTTP headers, case-insensitive; None where there are none (stdio).
        header_items: the same as raw lines, which alone show duplicates.
    """
    if headers is not None:
        duplicated = find_duplicated_routing_header(header_items)
        if duplicated is not None:
            return InboundLadderRejection(
                codes.HEADER_MISMATCH, f"{duplicated} header appears more than once"
            )
    if version is None or not _clean(method, params, version, headers) or not _object(meta):
        folded = None if headers is None else {k.lower(): v for k, v in headers.items()}
        body: dict[str, Any] = {"method": method, "params": {}}
        field = METHODS[method].name if method in METHODS else None
        if "_meta" in params:
            body["params"]["_meta"] = value(params["_meta"])
        if field is not None and field in params:
            body["params"][field] = value(params[field])
        verdict = classify_inbound_request(
            body, headers=folded, supported_modern_versions=MODERN_VERSIONS
        )
        if isinstance(verdict, InboundLadderRejection):
            named = body["params"].get(field)
            said = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": named}
            return verdict if folded is None else explained(verdict, folded, said)
        if not _object(meta):
            return InboundLadderRejection(
                codes.INVALID_PARAMS,
                f"params._meta[{CLIENT_CAPABILITIES}] is {brief(meta[CLIENT_CAPABILITIES])}; "
                "expected an object",
            )
        if field is not None and headers is not None:
            return task_name(field, params, headers)
    return None


def _clean(
    method: str, params: Mapping[str, Raw], version: str, headers: Mapping[str, str] | None
) -> bool:
    """Whether the common case holds: all headers there, plain and equal to the body."""
    if version not in MODERN_VERSIONS:
        return False
    if headers is None:
        return True
    if headers.get("MCP-Protocol-Version") != version or headers.get("Mcp-Method") != method:
        return False
    route = METHODS.get(method)
    if route is None or route.name is None:
        return True
    return headers.get("Mcp-Name") == text_of(params, route.name)


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


# -- _meta -------------------------------------------------------------------------------------


def passed_meta(meta: Mapping[str, Raw], *, transparent: bool) -> dict[str, Raw]:
    """What of a request's `_meta` goes on to the upstream: vendor and trace keys."""
    return {
        key: raw
        for key, raw in meta.items()
        if key not in HOP_KEYS and (transparent or not key.startswith(OWN_PREFIX))
    }


def with_passed_meta(
    params: dict[str, Raw], meta: Mapping[str, Raw], *, transparent: bool
) -> dict[str, Raw]:
    """The parameters with `_meta` reduced to what goes on."""
    if "_meta" in params:
        passed = passed_meta(meta, transparent=transparent)
        if passed:
            params["_meta"] = pack(passed)
        else:
            del params["_meta"]
    return params


# -- results and errors ------------------------------------------------------------------------


def shape(
    reply: Reply,
    method: str,
    to: Era,
    info: Mapping[str, Any],
    *,
    transparent: bool = False,
    private: bool = False,
) -> Reply:
    """An answer in the shape of the client's era.

    Args:
        reply: as the gateway gave it; `reply.era` says in whose era it is.
        method: the method that it answers.
        to: the client's era.
        info: the endpoint's `serverInfo`.
        transparent: whether the upstream's own `serverInfo` stays.
        private: whether others may not see the same, so that no shared cache may keep it.
    """
    if reply.error is not None:
        return _shape_error(reply, method, to)
    result = reply.result if reply.result is not None else EMPTY_OBJECT
    if to == "legacy":
        return reply if reply.era != "modern" else Reply(result=_for_legacy(result), era="legacy")
    if reply.era == "modern" and transparent and not private:
        return reply
    if method == "tools/call":
        tail = completing(reply.outline, b'"%b":%b' % (_SERVER_INFO, encode(info)))
        if tail is not None:
            return _completed(result, tail)
    shaped = _for_modern(result, method, info, private=private)
    return Reply(result=shaped, era="modern")


def _completed(result: Raw, tail: bytes) -> Reply:
    view = memoryview(result)
    if len(view) >= _LARGE_BYTES:
        return Reply(result, era="modern", tail=tail)
    return Reply(Raw(b"".join((view[:-1], tail))), era="modern")


def _for_modern(result: Raw, method: str, info: Mapping[str, Any], *, private: bool) -> Raw:
    opened = members_or_none(result)
    if opened is None:
        return result
    if "resultType" not in opened:
        opened["resultType"] = _COMPLETE
    route = METHODS.get(method)
    if route is not None and route.cacheable and text_of(opened, "resultType") == "complete":
        opened.setdefault("ttlMs", _ZERO)
        if private or "cacheScope" not in opened:
            opened["cacheScope"] = _PRIVATE
    meta = members_or_none(opened.get("_meta")) or {}
    meta[SERVER_INFO] = pack(info)
    opened["_meta"] = pack(meta)
    return pack(opened)


def _for_legacy(result: Raw) -> Raw:
    opened = members_or_none(result)
    if opened is None:
        return result
    for key in ("resultType", "ttlMs", "cacheScope"):
        opened.pop(key, None)
    structured = opened.get("structuredContent")
    if structured is not None and bytes(memoryview(structured)[:1]) != b"{":
        del opened["structuredContent"]
    meta = members_or_none(opened.get("_meta"))
    if meta is not None and meta.pop(SERVER_INFO, None) is not None:
        if meta:
            opened["_meta"] = pack(meta)
        else:
            del opened["_meta"]
    return pack(opened)


def _shape_error(reply: Reply, method: str, to: Era) -> Reply:
    error = reply.error
    if error is None or reply.era == to:
        return reply
    code = jsonrpc.code_of(error)
    changed = None
    if to == "modern" and code == codes.RESOURCE_NOT_FOUND:
        changed = codes.INVALID_PARAMS
    elif to == "modern" and code == codes.URL_ELICITATION_REQUIRED:
        changed = codes.INTERNAL_ERROR
    elif (
        to == "legacy"
        and reply.era == "modern"
        and method == "resources/read"
        and code == codes.INVALID_PARAMS
    ):
        changed = codes.RESOURCE_NOT_FOUND
    opened = members_or_none(error) if changed is not None else None
    if opened is None:
        return reply
    opened["code"] = Raw(b"%d" % (changed or 0))
    return Reply(error=pack(opened), era=to)


# -- handshakes --------------------------------------------------------------------------------


def initialize_result(version: str, described: Mapping[str, Any]) -> Raw:
    """The answer to `initialize`."""
    result: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": described["capabilities"],
        "serverInfo": described["serverInfo"],
    }
    if described["instructions"]:
        result["instructions"] = described["instructions"]
    return Raw(encode(result))


def discover_result(described: Mapping[str, Any]) -> Raw:
    """The answer to `server/discover`."""
    result: dict[str, Any] = {
        "resultType": "complete",
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": described["capabilities"],
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: described["serverInfo"]},
    }
    if described["instructions"]:
        result["instructions"] = described["instructions"]
    return Raw(encode(result))


def capabilities_of(raw: Raw | None) -> dict[str, Any]:
    """Declared client capabilities; none where they are no object."""
    if raw is None:
        return {}
    try:
        found = value(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def asks_url(params: Mapping[str, Raw]) -> bool:
    """Whether an elicitation is one in URL mode."""
    return text_of(params, "mode") == "url"


def may_ask(
    method: str, params: Mapping[str, Raw], capabilities: Mapping[str, Any], era: Era, version: str
) -> bool:
    """Whether the client declared that it can answer this request."""
    if method == "ping":
        return era == "legacy"
    needed = CAPABILITY.get(method)
    if needed is None or needed not in capabilities:
        return False
    if needed != "elicitation":
        return True
    declared = capabilities[needed]
    modes: Mapping[str, Any] = declared if isinstance(declared, dict) else {}  # pyright: ignore
    if asks_url(params):
        new_enough = era == "modern" or version >= URL_ELICITATION_SINCE
        return "url" in modes and new_enough
    return not modes or "form" in modes or "url" not in modes
