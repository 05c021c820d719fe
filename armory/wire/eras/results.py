"""Converts results and errors to the client's era.

Owns: what an answer gains or loses on its way between revisions. Pure; never does I/O.
"""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import Raw

from armory.protocol import codes, jsonrpc
from armory.protocol.hop_meta import completing
from armory.protocol.link import Reply
from armory.protocol.meta import SERVER_INFO
from armory.protocol.rawjson import (
    EMPTY_OBJECT,
    brief,
    members,
    members_or_none,
    pack,
    text_of,
    text_or_none,
)
from armory.protocol.scanning.taking_apart import TooWide
from armory.protocol.versions import Era

_SERVER_INFO = SERVER_INFO.encode()
_LARGE_BYTES = 16 * 1024
"""From this size on a result is passed on in parts rather than copied."""
_COMPLETE = Raw(b'"complete"')
_ZERO = Raw(b"0")
_PRIVATE = Raw(b'"private"')


def shape(
    reply: Reply,
    method: str,
    to: Era,
    info: Raw,
    *,
    transparent: bool = False,
    cacheable: bool = False,
    private: bool = False,
) -> Reply:
    """An answer in the client's era.

    Args:
        reply: as the gateway gave it; `reply.era` says in whose era it is.
        method: the method that it answers.
        to: the client's era.
        info: the endpoint's `serverInfo`.
        transparent: whether the upstream's own `serverInfo` stays.
        cacheable: whether modern results of the method say how long they may be kept.
        private: whether others may not see the same, so that no shared cache may keep it.
    """
    if reply.error is not None:
        return _shape_error(reply, method, to)
    result = reply.result if reply.result is not None else EMPTY_OBJECT
    if to == "legacy":
        return reply if reply.era != "modern" else _for_legacy(result)
    if reply.era == "modern" and transparent and not private:
        return reply
    if method == "tools/call":
        tail = completing(reply.outline, b'"%b":%b' % (_SERVER_INFO, memoryview(info)))
        if tail is not None:
            return _completed(result, tail)
    shaped = _for_modern(result, info, cacheable=cacheable, private=private)
    return Reply(result=shaped, era="modern")


def _completed(result: Raw, tail: bytes) -> Reply:
    view = memoryview(result)
    if len(view) >= _LARGE_BYTES:
        return Reply(result, era="modern", tail=tail)
    return Reply(Raw(b"".join((view[:-1], tail))), era="modern")


def _for_modern(result: Raw, info: Raw, *, cacheable: bool, private: bool) -> Raw:
    opened = members_or_none(result)
    if opened is None:
        return result
    if "resultType" not in opened:
        opened["resultType"] = _COMPLETE
    if cacheable and text_of(opened, "resultType") == "complete":
        opened.setdefault("ttlMs", _ZERO)
        if private or "cacheScope" not in opened:
            opened["cacheScope"] = _PRIVATE
    opened["_meta"] = _with_server(opened.get("_meta"), info)
    return pack(opened)


def _with_server(meta: Raw | None, info: Raw) -> Raw:
    """A `_meta` that names the server; one that is too large to be decoded stays as it is."""
    try:
        return pack({**({} if meta is None else members(meta)), SERVER_INFO: info})
    except TooWide:
        inside = memoryview(cast("Raw", meta))[:-1]  # ours last, as parsers take the last of two
        return Raw(b'%b,"%b":%b}' % (inside, _SERVER_INFO, memoryview(info)))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return pack({SERVER_INFO: info})


def _for_legacy(result: Raw) -> Reply:
    opened = members_or_none(result)
    if opened is None:
        return Reply(result, era="legacy")
    kind = opened.pop("resultType", _COMPLETE)
    if kind is not _COMPLETE and text_or_none(kind) != "complete":  # it would read as an answer
        message = (
            f"the upstream's result is of the type {brief(kind)}, unknown to this client's era"
        )
        return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message), era="legacy")
    for key in ("ttlMs", "cacheScope"):
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
    return Reply(pack(opened), era="legacy")


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
