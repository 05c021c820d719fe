"""The `_meta` of one hop: added to requests toward an upstream and to results toward a client.

Owns: putting it together around what passes through, without parsing that. Never imports a
transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from armory.protocol.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
)
from armory.protocol.rawjson import encode

_TOKEN = encode(PROGRESS_TOKEN) + b":"


def _meta_members(raw: Raw | None) -> bytes:
    """The inside of a `_meta` object's braces; empty when there is none."""
    if raw is None:
        return b""
    text = bytes(raw).strip()
    return text[1:-1].strip() if text[:1] == b"{" else b""


class MetaStamp:
    """Builds the `_meta` of modern requests: what passes through, and this hop's own members."""

    def __init__(self, version: str, client_info: Mapping[str, Any]) -> None:
        own = {PROTOCOL_VERSION: version, CLIENT_INFO: client_info}
        head = encode(own)[:-1] + b',"' + CLIENT_CAPABILITIES.encode() + b'":'
        self._head = head
        self._plain = Raw(head + b"{}}")
        self._traced = head + b'{},"traceparent":"'

    def meta(
        self,
        passed: Raw | None,
        capabilities: Mapping[str, Any] | None,
        log_level: str | None,
        progress_token: int | None,
        traceparent: str | None = None,
    ) -> Raw:
        """The value of `params._meta`.

        Args:
            passed: the caller's `_meta`, reserved keys already taken out.
            capabilities: the client's own.
            log_level: what it wants logged for this request, or None.
            progress_token: this hop's token, or None.
            traceparent: the span above, where `passed` is None.
        """
        if not capabilities and log_level is None and progress_token is None:
            if traceparent is not None:
                return Raw(self._traced + traceparent.encode() + b'"}')
            if passed is None:
                return self._plain
        parts = [self._head, encode(dict(capabilities or {}))]
        if log_level is not None:
            parts.append(b',"' + LOG_LEVEL.encode() + b'":' + encode(log_level))
        if traceparent is not None:
            passed = _traced(traceparent)
        return _closed(parts, passed, progress_token)


def legacy_meta(
    passed: Raw | None, progress_token: int | None, traceparent: str | None = None
) -> Raw | None:
    """`params._meta` for an upstream of the legacy era; None when it would be empty."""
    if traceparent is not None:
        passed = _traced(traceparent)
    if progress_token is None:
        return passed
    members = _meta_members(passed)
    return Raw(b"{%b%d%b}" % (_TOKEN, progress_token, b"," + members if members else b""))


def _traced(traceparent: str) -> Raw:
    return Raw(b'{"traceparent":"%b"}' % traceparent.encode())


def _closed(parts: list[bytes], passed: Raw | None, progress_token: int | None) -> Raw:
    if progress_token is not None:
        parts.append(b",%b%d" % (_TOKEN, progress_token))
    members = _meta_members(passed)
    if members:
        parts.append(b"," + members)
    parts.append(b"}")
    return Raw(b"".join(parts))


def completing(outline: bytes, info: bytes) -> bytes | None:
    """The bytes that replace the last brace of a tool's result to add what the modern era requires;
    None where it is unknown which members are there already.

    A member before the last brace, or after the first one, belongs to the result itself, and a key
    that occurs nowhere is absent: so a large result need not be parsed.

    Args:
        outline: the result without its long strings.
        info: the member of `_meta` that says who answers, `"key":value`.
    """
    if not (outline.startswith(b'{"') and outline.endswith(b"}")) or b'"_meta"' in outline:
        return None
    typed = outline.startswith(b'{"resultType":"complete",') or outline.endswith(
        b'"resultType":"complete"}'
    )
    if not typed and b'"resultType"' in outline:
        return None
    kind = b',"_meta":{' if typed else b',"resultType":"complete","_meta":{'
    return b"".join((kind, info, b"}}"))
