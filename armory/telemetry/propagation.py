"""W3C trace context in `_meta` and in HTTP headers.

Owns: reading and writing `traceparent`, `tracestate` and `baggage`, as text. Never imports
OpenTelemetry: most requests belong to traces that nobody keeps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Raw
from multidict import MultiMapping

from armory.protocol.rawjson import members_or_none, pack, text_of

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
BAGGAGE = "baggage"
KEPT = "-01"
"""End of the `traceparent` of a trace that is kept."""
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_LONGEST = 8_192


class Parent(NamedTuple):
    """A parent span of another process.

    Attributes:
        trace, span: its ids, 32 and 16 hexadecimal digits.
        sampled: whether it is kept.
        state: its `tracestate`; None: there is none.
    """

    trace: str
    span: str
    sampled: bool
    state: str | None = None

    @property
    def traceparent(self) -> str:
        """The header's value for its child spans."""
        return f"00-{self.trace}-{self.span}-{self.sampled:02x}"


def parsed(parent: str, state: str | None) -> Parent | None:
    """The remote span that a `traceparent` names; None: it is invalid."""
    found = _FORM.fullmatch(parent.strip()) if len(parent) < 512 else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest):
        return None
    if trace == _NO_TRACE or span == _NO_SPAN:
        return None
    known = state if state and len(state) < _LONGEST else None
    return Parent(trace, span, bool(int(flags, 16) & 1), known)


def from_meta(meta: Mapping[str, Raw]) -> Parent | None:
    """The parent that a request's `_meta` names."""
    parent = text_of(meta, TRACEPARENT) if TRACEPARENT in meta else None
    return None if parent is None else parsed(parent, text_of(meta, TRACESTATE))


def from_headers(headers: Mapping[str, str]) -> Parent | None:
    """The parent that an HTTP request's headers name."""
    parent = headers.get(TRACEPARENT)
    return None if parent is None else parsed(parent, combined(headers, TRACESTATE))


def combined(headers: Mapping[str, str], name: str) -> str | None:
    """A header; several lines are joined to one list, as W3C requires for `tracestate` and
    `baggage`.
    """
    if name in headers and isinstance(headers, MultiMapping):
        return ",".join(headers.getall(name))
    return headers.get(name)


def injected(
    params: Mapping[str, Raw], parent: str, state: str | None, baggage: str | None = None
) -> dict[str, Raw]:
    """The parameters with the trace context in `_meta`; its other members are unchanged.

    Args:
        params: of a request that goes upstream.
        parent: `traceparent` for what the upstream does.
        state: `tracestate`; None: there is none.
        baggage: put in where `_meta` has none.
    """
    raw = params.get("_meta")
    if raw is None and state is None and baggage is None:
        return {**params, "_meta": Raw(b'{"traceparent":"%b"}' % parent.encode())}
    meta = members_or_none(raw) or {}
    meta[TRACEPARENT] = Raw(b'"%b"' % parent.encode())
    meta.pop(TRACESTATE, None)
    if state:
        meta[TRACESTATE] = pack(state)
    if baggage is not None and BAGGAGE not in meta:
        meta[BAGGAGE] = pack(baggage)
    return {**params, "_meta": pack(meta)}
