"""TOON in the place of JSON, where somebody asked for it and it is smaller.

Owns: re-encoding text blocks whose text is JSON. Never touches `structuredContent`, images,
resources or errors; never imports a transport.

Lossless means: decoding the TOON text gives the JSON value back (member order aside, which JSON
does not have). Every text is decoded again before it is used; one that does not come back equal is
left alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import structlog
import toon_format

from armory.llm.tokens import estimate_tokens

_log = structlog.get_logger(__name__)

MEDIA_TYPE = "text/toon"
#: Estimates of JSON and TOON differ by a few percent: a smaller saving may be none.
_LEAST_SAVING = 0.05
_MIN_CHARS = 40
_MAX_CHARS = 1_000_000
_THREAD_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class Saving:
    """Estimated tokens of the text blocks that were looked at, as they came and as they left."""

    before: int = 0
    after: int = 0

    def __add__(self, other: Saving) -> Saving:
        return Saving(self.before + other.before, self.after + other.after)


def wanted(headers: Mapping[str, str], upstream_format: str = "json") -> bool:
    """Whether text results are to be made compact.

    `X-Prefer-Format: toon` or an `Accept` that names `text/toon` asks for it, `X-Prefer-Format:
    json` declines; without either the upstream's configured `result_format` decides.

    Args:
        headers: case-insensitive mapping of the request's headers.
        upstream_format: "json" or "toon".
    """
    preferred = headers.get("X-Prefer-Format", "").strip().lower()
    if preferred in ("toon", "json"):
        return preferred == "toon"
    accepted = headers.get("Accept", "")
    for part in accepted.split(","):
        kind, *parameters = (p.strip().lower() for p in part.split(";"))
        if kind == MEDIA_TYPE:
            return not any(p.replace(" ", "") in ("q=0", "q=0.0") for p in parameters)
    return upstream_format == "toon"


def encode_text(text: str) -> tuple[str, Saving]:
    """A JSON text as TOON, or the text itself where TOON is not smaller or not lossless.

    Only objects and arrays are looked at. The saving counts estimated tokens; it is 0 before and
    after where the text is no JSON.
    """
    start = text.lstrip()[:1]
    if start not in ("{", "[") or not _MIN_CHARS <= len(text) <= _MAX_CHARS:
        return text, Saving()
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return text, Saving()
    before = estimate_tokens(text)
    encoded = encode_value(value)
    if encoded is None:
        return text, Saving(before, before)
    after = estimate_tokens(encoded)
    if after > before * (1 - _LEAST_SAVING):
        return text, Saving(before, before)
    return encoded, Saving(before, after)


def encode_value(value: Any) -> str | None:
    """A JSON value as TOON; None when it does not come back equal."""
    try:
        encoded = toon_format.encode(value)
        back = toon_format.decode(encoded)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        _log.debug("toon_not_lossless", reason=type(error).__name__)
        return None
    if not _equal(value, back):
        _log.debug("toon_not_lossless", reason="decodes to something else")
        return None
    return encoded


def encode_content(content: Sequence[Any]) -> tuple[list[Any], Saving]:
    """The content blocks of a result with JSON texts as TOON; everything else as it is."""
    total = Saving()
    blocks: list[Any] = []
    for block in content:
        changed = block
        if isinstance(block, dict):
            known = cast("dict[str, Any]", block)
            text = known.get("text")
            if known.get("type") == "text" and isinstance(text, str):
                encoded, saving = encode_text(text)
                total += saving
                if encoded is not text:
                    changed = {**known, "text": encoded}
        blocks.append(changed)
    return blocks, total


async def encode_result(result: Mapping[str, Any]) -> tuple[Mapping[str, Any], Saving]:
    """A `tools/call` result with its JSON texts as TOON. Errors (`isError`) pass as they are.

    Long texts are worked on in a thread, beside the event loop.

    Args:
        result: the result as parsed; not changed.
    """
    content = result.get("content")
    if result.get("isError") is True or not isinstance(content, list):
        return result, Saving()
    blocks = cast("list[Any]", content)
    size = sum(len(b["text"]) for b in blocks if isinstance(b, dict) and _is_text(b))
    if size > _THREAD_CHARS:
        encoded, saving = await asyncio.to_thread(encode_content, blocks)
    else:
        encoded, saving = encode_content(blocks)
    if saving.before == saving.after:
        return result, saving
    return {**result, "content": encoded}, saving


def _is_text(block: Any) -> bool:
    return isinstance(block.get("text"), str)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are not repeated: a repeated one would be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated member name")
    return found


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: true is not 1, 1 is 1.0, member order does not count."""
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, dict) and isinstance(right, dict):
        ours, theirs = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return ours.keys() == theirs.keys() and all(_equal(v, theirs[k]) for k, v in ours.items())
    if isinstance(left, list) and isinstance(right, list):
        a, b = cast("list[Any]", left), cast("list[Any]", right)
        return len(a) == len(b) and all(map(_equal, a, b))
    return isinstance(left, str) and isinstance(right, str) and left == right
