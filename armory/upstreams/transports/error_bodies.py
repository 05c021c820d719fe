"""The message in the body of an HTTP error, whatever its format.

Owns: finding the sentence in JSON (OAuth, JSON-RPC, problem details), HTML and plain text. Never
imports a link.
"""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from armory.observability.redaction import redacted

_CUT = 300
_OPENED_BYTES = 64 * 1024
"""Longer bodies are read as text, and only at their beginning."""
_WORDS = ("error_description", "message", "detail", "reason", "title", "error", "errors", "code")
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{1,300})", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,500}>")


def error_text(body: bytes | bytearray) -> str:
    """One line of the body's message, secrets redacted; "" where there is none."""
    try:
        found = _sentence(msgspec.json.decode(body if len(body) <= _OPENED_BYTES else b""), 3)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        text = bytes(body[:4_096]).decode("utf-8", "replace")
        title = _TITLE.search(text)
        found = title[1] if title else _TAG.sub(" ", text)
    return redacted(" ".join(found.split())[:_CUT])


def is_message(body: bytes | bytearray) -> bool:
    """Whether a body is a JSON-RPC message, not just any JSON."""
    return b'"jsonrpc"' in body


def _sentence(value: Any, levels: int) -> str:
    if isinstance(value, str):
        return value
    if levels and isinstance(value, list) and value:
        return _sentence(cast("list[Any]", value)[0], levels - 1)
    if not levels or not isinstance(value, dict):
        return ""
    said = cast("dict[str, Any]", value)
    parts = [_sentence(said[word], levels - 1) for word in _WORDS if word in said]
    sentences = list(dict.fromkeys(part for part in parts if part))
    if (
        isinstance(said.get("error"), str) and len(sentences) > 1
    ):  # OAuth: a code beside the sentence
        sentences = [str(said["error"]), *(part for part in sentences if part != said["error"])]
    return ": ".join(sentences[:2])
