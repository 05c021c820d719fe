"""Media types of bodies, and the schemas of what is sent as one of them.

Owns: which media type is sent, and how files and plain bodies are asked for. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from armory.openapi.references import BadDescription

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
FORMS = (FORM, MULTIPART)
_ONE = re.compile(r"[\w.+-]+/[\w.+-]+")
"""A single media type; a list of those that are allowed, or a pattern, says not which one it is."""


def is_json(media_type: str) -> bool:
    """Whether a media type is JSON, or something whose syntax is."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def is_text(media_type: str) -> bool:
    """Whether a media type is read as text."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("/xml", "+xml", "/yaml", "/x-ndjson"))


def preferred(content: Mapping[str, Any]) -> tuple[str, Any]:
    """The media type to send: JSON, a form, else the first that names one."""
    kinds = {kind: media for kind, media in content.items() if isinstance(media, dict)}
    for wanted in (is_json, FORM.__eq__, MULTIPART.__eq__, is_text):
        for kind, media in kinds.items():
            if wanted(kind.partition(";")[0].strip().lower()):
                return kind.partition(";")[0].strip().lower(), media
    for kind, media in kinds.items():
        if kind == "*/*":
            return "application/json", media
        if "*" not in kind:
            return kind, media
    raise BadDescription("its requestBody names no media type that can be sent")


@dataclass(frozen=True, slots=True)
class Member:
    """How one member of a form travels, where the description says it.

    Attributes:
        style: how lists and objects are written in a form that is no multipart; "": as JSON.
        explode: whether each item stands by itself.
        reserved: whether reserved characters stay as they are.
        media_type: of a part of a multipart body; "": what its value suggests.
    """

    style: str = ""
    explode: bool = True
    reserved: bool = False
    media_type: str = ""


def members_of(encoding: Any) -> dict[str, Member]:
    """What an `encoding` says, by member."""
    found: dict[str, Member] = {}
    for name, node in (
        cast("dict[str, Any]", encoding).items() if isinstance(encoding, dict) else ()
    ):
        said = cast("dict[str, Any]", node) if isinstance(node, dict) else {}
        style, explode, kind = said.get("style"), said.get("explode"), said.get("contentType")
        if style is None and ("explode" in said or "allowReserved" in said):
            style = "form"
        known = style in ("form", "spaceDelimited", "pipeDelimited", "deepObject")
        found[name] = Member(
            str(style) if known else "",
            explode if isinstance(explode, bool) else style == "form",
            said.get("allowReserved") is True,
            kind if isinstance(kind, str) and _ONE.fullmatch(kind) else "",
        )
    return found


def files_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The members of a form that are files, or lists of them; their schemas are made to ask for
    base64.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return frozenset()
    found: set[str] = set()
    for name, part in cast("dict[str, dict[str, Any]]", properties).items():
        items = part.get("items")
        one = cast("dict[str, Any]", items) if isinstance(items, dict) else part
        if one.get("format") == "binary" or "contentMediaType" in one:
            found.add(name)
            one.pop("format", None)
            one["contentEncoding"] = "base64"
    return frozenset(found)


def plain_body(media_type: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a body that is neither JSON nor a form: text, or bytes as base64."""
    kept = {k: v for k, v in described.items() if k in ("title", "description")}
    if is_text(media_type):
        return {**kept, "type": "string", "contentMediaType": media_type}
    return {
        **kept,
        "type": "string",
        "contentMediaType": media_type,
        "contentEncoding": "base64",
    }
