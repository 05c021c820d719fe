"""Converts an API's response to the result of a tool.

Owns: content blocks and structured content. Does no I/O.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from armory.openapi.media import is_json, is_text

_ERROR_CHARS = 4_000
_json = msgspec.json.Decoder(Raw).decode
_LINK_CHARS = 8_000
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_CHARSET = re.compile(
    r";\s*charset\s*=\s*\"?(iso-?8859-?\d+|windows-?\d+|latin-?\d|us-ascii|utf-?(?:16|32)(?:[bl]e)?"
    r"|shift_?jis|euc-?(?:jp|kr)|gb(?:k|2312|18030)|big5|koi8-?[ru])(?![\w-])",
    re.IGNORECASE,
)
"""Charsets that are honoured; all else is read as UTF-8. Python has more codecs, some of them slow
or no charsets."""


def result_of(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Convert a response to the result of a call.

    Args:
        status: HTTP status.
        headers: of the answer, case ignored.
        body: all of it.
    """
    failed = status >= 300
    blocks, structure = _content(headers.get("Content-Type", ""), body)
    if failed:
        blocks = [{"type": "text", "text": _failure(status, headers, blocks)}]
    elif not blocks:
        blocks = [{"type": "text", "text": f"{_named(status)}, without content"}]
    following = _next_page(headers.get("Link", ""))
    if following and not failed:
        query = urlsplit(following).query
        blocks.append({"type": "text", "text": f"The next page has the parameters {query}"})
    result: dict[str, Any] = {"content": blocks, "isError": failed}
    if structure is not None:
        result["structuredContent"] = structure
    return result


def _next_page(link: str) -> str | None:
    """The target of `rel="next"` in a `Link` header (RFC 8288); None: there is none."""
    for found in _LINK.finditer(link[:_LINK_CHARS]):
        for parameter in found[2].split(";"):
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "rel" and "next" in value.strip(' ",').lower().split():
                return found[1]
    return None


def refused(message: str) -> dict[str, Any]:
    """The error result of a call that was not sent."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _content(kind: str, body: bytes) -> tuple[list[dict[str, Any]], Raw | None]:
    if not body:
        return [], None
    plain, named = kind.partition(";")[0].strip().lower(), _CHARSET.search(kind)
    charset = named[1] if named else "utf-8"
    if is_json(plain) or not plain:
        structure = _structured(body)
        return [_text(body, charset if structure is None else "utf-8")], structure
    if is_text(plain) or plain == FORM_TEXT:
        return [_text(body, charset)], None
    data = base64.b64encode(body).decode()
    for family in ("image", "audio"):
        if plain.startswith(f"{family}/"):
            return [{"type": family, "data": data, "mimeType": plain}], None
    resource = {"uri": f"data:{plain}", "mimeType": plain, "blob": data}
    return [{"type": "resource", "resource": resource}], None


def _structured(body: bytes) -> Raw | None:
    """The body as a JSON object, other JSON values as its `result`; None if it is not JSON. It is
    not parsed into Python objects: many small values would take tens of times the memory and time.
    """
    try:
        body.decode()
        _json(body)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None
    line = body.replace(b"\n", b" ").replace(b"\r", b" ").strip()  # they stand between values alone
    return Raw(line if line.startswith(b"{") else b'{"result":%b}' % line)


FORM_TEXT = "application/x-www-form-urlencoded"


def _text(body: bytes, charset: str) -> dict[str, Any]:
    try:
        text = body.decode(charset, "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return {"type": "text", "text": text}


def _named(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _failure(status: int, headers: Mapping[str, str], blocks: list[dict[str, Any]]) -> str:
    text = _named(status)
    if status < 400:
        text += (
            f": it redirects to {headers.get('Location', 'nowhere')[:500]}, which is not followed"
        )
    elif status in (401, 403):
        text += ": the API refuses the gateway's credentials, or wants some"
    elif status == 429 and "Retry-After" in headers:
        text += f": try again after {headers['Retry-After'][:40]}"
    said = "".join(block.get("text", "") for block in blocks).strip()
    return f"{text}\n{said[:_ERROR_CHARS]}" if said else text
