"""What both sides agree on."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from armory.wire.eras.handshakes import (
    capabilities_of,
    discover_result,
    initialize_result,
    negotiated,
)

INFO = {"name": "armory", "version": "1"}
VERSION = "2026-07-28"


def test_an_unknown_revision_is_answered_with_the_newest() -> None:
    assert negotiated("2024-11-05") == "2024-11-05"
    assert negotiated(VERSION) == "2025-11-25"
    assert negotiated("nonsense") == "2025-11-25"


def test_handshake_answers() -> None:
    described = {"capabilities": {"tools": {}}, "serverInfo": INFO, "instructions": ""}
    assert msgspec.json.decode(initialize_result("2025-06-18", described)) == {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": INFO,
    }
    told = {**described, "instructions": "do"}
    assert msgspec.json.decode(initialize_result("x", told))["instructions"] == "do"
    discovered = msgspec.json.decode(discover_result(told))
    assert discovered["resultType"] == "complete"
    assert discovered["supportedVersions"] == [VERSION]
    assert "instructions" not in msgspec.json.decode(discover_result(described))


def test_declared_capabilities() -> None:
    assert capabilities_of(None) == {}
    assert capabilities_of(Raw(b"3")) == {}
    assert capabilities_of(Raw(b"{")) == {}
    assert capabilities_of(Raw(b'{"roots":{}}')) == {"roots": {}}
