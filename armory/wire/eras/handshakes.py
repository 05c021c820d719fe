"""The answers to `initialize` and `server/discover`: identity, revision, capabilities.

Owns: the answers to `initialize` and `server/discover`. Pure; never does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from armory.protocol.meta import SERVER_INFO
from armory.protocol.rawjson import encode, value
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS


def negotiated(asked: str) -> str:
    """The revision to answer: the requested one, else the newest that has a handshake."""
    return asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[-1]


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


CAPABILITIES_BYTES = 16_384
"""What a client may declare: a session keeps it, as objects of some twelve times that size."""


def within_bounds(raw: Raw | None) -> bool:
    """Whether declared capabilities are within the size limit."""
    return raw is None or len(memoryview(raw)) <= CAPABILITIES_BYTES


def capabilities_of(raw: Raw | None) -> dict[str, Any]:
    """The declared client capabilities; empty where they are no object."""
    if raw is None:
        return {}
    try:
        found = value(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
