"""Results as TOON, where the client asks for it and it is smaller.

Owns: which requests want TOON, and which part of a result becomes it: the JSON of text blocks.
Never touches `structuredContent`, other blocks or errors.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from armory.gateway.ports import OnCompacted
from armory.gateway.results.toon import Saving, encode_text
from armory.gateway.settings import ResultFormat
from armory.logger import Logger
from armory.protocol.rawjson import encode, few_items, members_or_none, pack, text_of

_log = Logger(__name__)

MEDIA_TYPE = "text/toon"
_DECLINED = re.compile(r"q\s*=\s*0(\.0*)?")
_TRUE = Raw(b"true")
_BLOCKS = 1_000
"""A result with more blocks stays as it is: they would all be decoded in one go."""
_THREAD_BYTES = 8_000
"""Above this, encoding is worth a thread of its own, so that the event loop goes on."""


def wants_toon(headers: Mapping[str, str], configured: ResultFormat = "json") -> bool:
    """Whether a result is to be compact.

    `X-Prefer-Format: toon` or an `Accept` that names `text/toon` asks for it, `X-Prefer-Format:
    json` declines; a request that says neither gets what is configured for the upstream.
    """
    preferred = headers.get("X-Prefer-Format")
    if preferred is not None and (named := preferred.strip().lower()) in ("toon", "json"):
        return named == "toon"
    accept = headers.get("Accept")
    for part in accept.split(",") if accept is not None and "toon" in accept.lower() else ():
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if kind == MEDIA_TYPE:
            return not any(_DECLINED.fullmatch(parameter) for parameter in parameters)
    return configured == "toon"


async def compact_result(result: Raw, origin: str, count: OnCompacted) -> Raw:
    """A result whose JSON text blocks are TOON wherever that costs fewer tokens.

    Args:
        result: of a call; with `isError: true` it stays as it is.
        origin: server or meta-tool that it comes from.
        count: told (origin, tokens before, tokens after) when something became smaller.
    """
    if len(memoryview(result)) > _THREAD_BYTES:
        compact, saving = await asyncio.to_thread(compacted, result)
    else:
        compact, saving = compacted(result)
    if saving.after < saving.before:
        count(origin, saving.before, saving.after)
        _log.rate_limited(
            "info",
            "result_compacted",
            origin=origin,
            tokens_before=saving.before,
            tokens_after=saving.after,
        )
    return compact


def compacted(result: Raw) -> tuple[Raw, Saving]:
    """The compact result, and the estimated tokens of its JSON texts before and after."""
    opened = members_or_none(result)
    total = Saving()
    if opened is None or "content" not in opened or _is_error(opened):
        return result, total
    try:
        blocks = few_items(opened["content"], _BLOCKS)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return result, total
    for place, raw in enumerate(blocks):
        block = members_or_none(raw)
        if block is None or text_of(block, "type") != "text":
            continue
        text = text_of(block, "text")
        if text is None:
            continue
        compact, saving = encode_text(text)
        total += saving
        if compact is not text:
            block["text"] = Raw(encode(compact))
            blocks[place] = pack(block)
    if total.after == total.before:
        return result, total
    opened["content"] = pack(blocks)
    return pack(opened), total


def _is_error(opened: Mapping[str, Raw]) -> bool:
    raw = opened.get("isError")
    return raw == _TRUE
