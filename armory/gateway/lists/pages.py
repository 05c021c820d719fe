"""Builds the results of listings, which are always one page.

Owns: putting a list's result together in the client's era, and refusing cursors. Never imports a
transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.meta import DEGRADED, SERVER_INFO
from armory.protocol.rawjson import encode


def refuse_cursor(params: Mapping[str, Raw]) -> None:
    """Refuse cursors: every list is one page, so none was ever given out. An empty one, with which
    some clients begin, means the first page.

    Raises:
        RpcError: the request has a cursor.
    """
    if "cursor" in params and bytes(memoryview(params["cursor"])) not in (b"null", b'""'):
        raise RpcError(
            INVALID_PARAMS,
            "params.cursor was not given out here; list again without one",
            {"parameter": "params.cursor"},
        )


def list_result(
    context: RequestContext,
    method: str,
    member: bytes,
    entries: bytes,
    *,
    kept: bool = True,
    private: bool = False,
    meta: Mapping[str, Any] | None = None,
) -> Reply:
    """The result of a listing.

    Args:
        context: the request.
        method: what is listed.
        member: name of the member that holds the entries.
        entries: comma-separated.
        kept: whether a modern client may keep it for as long as the upstreams grant.
        private: whether nobody else may be shown the same, whatever they grant.
        meta: members of `_meta`.
    """
    lacking = context.view.lacks(context)
    if lacking is not None:
        meta = {**(meta or {}), DEGRADED: lacking}
    if context.era == "legacy":
        tail = (b'],"_meta":', encode(meta), b"}") if meta else (b"]}",)
        return Reply(Raw(b"".join((b'{"', member, b'":[', entries, *tail))), era="legacy")
    view, endpoint = context.view, context.endpoint
    ttl_ms, scope = view.cache_fields(method, context)
    head = {
        "resultType": "complete",
        "ttlMs": ttl_ms if kept else 0,
        "cacheScope": "private" if private else scope,
        "_meta": {**(meta or {}), SERVER_INFO: view.info(endpoint)},
    }
    parts = (encode(head)[:-1], b',"', member, b'":[', entries, b"]}")
    return Reply(Raw(b"".join(parts)), era="modern")
