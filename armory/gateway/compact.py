"""Results as TOON, where asked and smaller.

Owns: turning JSON text content into TOON. Never touches `structuredContent` or other blocks.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from toon import encode as toon_encode

from armory.gateway.rawjson import encode, items, open_or_none, pack, text_of, value


def wants_toon(headers: Mapping[str, str]) -> bool:
    """Whether the request asks for compact results."""
    if not headers:
        return False
    if headers.get("X-Prefer-Format", "").lower() == "toon":
        return True
    return "text/toon" in headers.get("Accept", "")


def compact_result(result: Raw) -> Raw:
    """A result whose JSON text blocks are TOON wherever that is shorter."""
    opened = open_or_none(result)
    if opened is None or "content" not in opened:
        return result
    try:
        blocks = items(opened["content"])
    except msgspec.DecodeError:
        return result
    changed = False
    for place, raw in enumerate(blocks):
        block = open_or_none(raw)
        if block is None or text_of(block, "type") != "text":
            continue
        text = text_of(block, "text")
        compact = compact_text(text) if text is not None else None
        if compact is not None:
            block["text"] = Raw(encode(compact))
            blocks[place] = pack(block)
            changed = True
    if not changed:
        return result
    opened["content"] = pack(blocks)
    return pack(opened)


def compact_text(text: str) -> str | None:
    """JSON text as TOON; None where it is no JSON structure, or TOON is not smaller."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        parsed = value(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return None
    compact = toon_encode(parsed)
    return compact if len(compact) < len(text) else None
