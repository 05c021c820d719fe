"""Encodes the body of a request in the media type that the description names.

Owns: writing JSON, forms, multipart, texts and bytes. Does no I/O.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Any
from urllib.parse import quote

import msgspec

from armory.openapi.media import FORM, MULTIPART, is_json, is_text
from armory.openapi.operation import Body, Parameter
from armory.openapi.styles import (
    BadArguments,
    in_query,
    items_of,
    members_of,
    percent_encoded,
    scalar_text,
)


def body_of(body: Body, value: Any) -> tuple[str, bytes]:
    """Encode a body: (content type, bytes).

    Raises:
        BadArguments: it cannot be written so.
    """
    if is_json(body.media_type):
        return body.media_type, msgspec.json.encode(value)
    if body.media_type in (FORM, MULTIPART):
        if not isinstance(value, dict):
            raise BadArguments(f"the argument {body.argument!r} is no object")
        members = members_of(value)
        if body.media_type == FORM:
            texts = [text for name, item in members for text in _in_form(body, name, item)]
            return FORM, "&".join(texts).encode()
        parts = [(name, part) for name, item in members for part in _parts(body, name, item)]
        return _multipart(body, parts)
    if not isinstance(value, str):
        raise BadArguments(f"the argument {body.argument!r} is no text")
    if is_text(body.media_type):
        return f"{body.media_type}; charset=utf-8", value.encode()
    return body.media_type, _bytes_of(value, body.argument)


def _in_form(body: Body, name: str, value: Any) -> list[str]:
    """One form member, in the style that the description gives; otherwise one field for each item,
    and objects as JSON.
    """
    said = body.members.get(name)
    if said is None or not said.style:
        return [
            f"{percent_encoded(name)}={percent_encoded(scalar_text(item))}"
            for item in items_of(value)
        ]
    member = Parameter(
        name, name, "query", said.style, said.explode, reserved=said.reserved, in_body=True
    )
    return in_query(member, value)


def _parts(body: Body, name: str, value: Any) -> list[Any]:
    """The parts of one multipart member: one for each item of a list, unless the member is sent as
    JSON.
    """
    said = body.members.get(name)
    return [value] if said is not None and is_json(said.media_type) else items_of(value)


def _multipart(body: Body, members: list[tuple[str, Any]]) -> tuple[str, bytes]:
    boundary = f"armory-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, item in members:
        shown = quote(name, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")
        head = f'Content-Disposition: form-data; name="{shown}"'
        said = body.members.get(name)
        kind = "" if said is None else said.media_type
        if name in body.binary:
            data = _bytes_of(item, name)
            head += f'; filename="{shown}"'
            kind = kind or "application/octet-stream"
        elif isinstance(item, dict | list) or (is_json(kind) and not isinstance(item, str)):
            data = msgspec.json.encode(item)
            kind = kind or "application/json"
        else:
            data = scalar_text(item).encode()
        if kind:
            head += f"\r\nContent-Type: {kind}"
        parts.append(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n")
    end = f"--{boundary}--\r\n".encode()
    return f"{MULTIPART}; boundary={boundary}", b"".join([*parts, end])


def _bytes_of(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadArguments(f"{where!r} is no base64 text") from None
