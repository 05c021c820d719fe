"""What a message about somebody's JSON quotes of it."""

from __future__ import annotations

from armory.protocol.rawjson import brief, pack


def test_a_long_value_is_quoted_in_part() -> None:
    assert brief(pack("a" * 1_000)) == '"' + "a" * 76 + "..."
    assert brief("short") == '"short"'
