"""Context boosts: time of day, the last called tool, and the organisation's preferences.

Owns: the factors, their constants and the tags that they look for. Pure functions; never reads a
clock.

They multiply in the order temporal, workflow, policy. A tool carries a tag through the
configuration (`tools.tags`), through `_meta["dev.armory/tags"]` (a list), or as a true value of
that name in its `_meta`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from armory.domain.naming import split_name
from armory.domain.tool import ToolRecord
from armory.protocol.meta import TAGS

EVENING_HOUR = 17
ASYNC_BOOST = 1.2
LOW_LATENCY_BOOST = 1.1
WORKFLOW_BOOST = 1.15
COMPLIANCE_BOOST = 1.25
ASYNC_TAGS = frozenset(("async", "asynchronous"))
LOW_LATENCY_TAGS = frozenset(("low-latency", "low_latency"))
COMPLIANCE_TAGS = frozenset(("compliance-certified", "compliance_certified"))


@dataclass(frozen=True, slots=True)
class Boost:
    """The boost of one tool.

    Attributes:
        factor: the product, at least 1.
        reasons: one phrase a factor, in the order in which they apply.
    """

    factor: float = 1.0
    reasons: tuple[str, ...] = ()


NONE = Boost()


def tags_of(record: ToolRecord) -> frozenset[str]:
    """Every tag that a tool carries, lower-case."""
    found = {tag.lower() for tag in record.tags}
    meta = record.definition.get("_meta")
    if isinstance(meta, Mapping):
        entries = cast("Mapping[str, Any]", meta)
        listed = entries.get(TAGS)
        if isinstance(listed, list):
            found.update(t.lower() for t in cast("list[Any]", listed) if isinstance(t, str))
        found.update(key.lower() for key, value in entries.items() if value is True)
    return frozenset(found)


def boost_of(record: ToolRecord, hour: int | None, last_server: str | None) -> Boost:
    """The boost of one tool.

    Args:
        record: the tool.
        hour: local hour, 0 to 23; None: unknown, no temporal boost.
        last_server: server of the tool that was called last, or None.
    """
    factor = 1.0
    reasons: list[str] = []
    tags = tags_of(record)
    if hour is not None and hour >= EVENING_HOUR and tags & ASYNC_TAGS:
        factor *= ASYNC_BOOST
        reasons.append(f"asynchronous, after {EVENING_HOUR}:00")
    elif hour is not None and hour < EVENING_HOUR and tags & LOW_LATENCY_TAGS:
        factor *= LOW_LATENCY_BOOST
        reasons.append("low latency, during the day")
    if last_server is not None and record.server == last_server:
        factor *= WORKFLOW_BOOST
        reasons.append(f"same server as the last tool ({last_server})")
    if tags & COMPLIANCE_TAGS:
        factor *= COMPLIANCE_BOOST
        reasons.append("compliance certified")
    return Boost(factor, tuple(reasons)) if reasons else NONE


def boosts(records: Sequence[ToolRecord], hour: int | None, last_tool: str | None) -> list[Boost]:
    """The boost of every tool; `last_tool` is an exposed name."""
    parts = split_name(last_tool) if last_tool else None
    server = parts[0] if parts else None
    return [boost_of(record, hour, server) for record in records]


def boosted(score: float, boost: Boost) -> float:
    """`score` times the factor, clamped to 1."""
    return min(1.0, score * boost.factor)
