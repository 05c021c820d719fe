"""Media types of request bodies, and the schemas of such bodies.

Owns: which media type is sent, and the schemas of files and plain bodies. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from armory.openapi.references import BadDescription

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_MEMBERS = 1_000
FORMS = (FORM, MULTIPART)
_TOGETHER = ("allOf", "anyOf", "oneOf")
_ONE = re.compile(r"[\w.+-]+/[\w.+-]+")
"""A single media type, no list and no pattern."""


def is_json(media_type: str) -> bool:
    """Whether a media type is JSON, or based on it (`+json`)."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def is_text(media_type: str) -> bool:
    """Whether a media type is read as text."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("/xml", "+xml", "/yaml", "/x-ndjson"))


def preferred(content: Mapping[str, Any]) -> tuple[str, Any]:
    """The media type to send: JSON, a form, text, or else the first concrete one."""
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
    """How one form member is encoded, if the description says so.

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
    """The entries of an `encoding` object, by member."""
    found: dict[str, Member] = {}
    if isinstance(encoding, dict) and len(cast("dict[str, Any]", encoding)) > MAX_MEMBERS:
        raise BadDescription(f"its form has more than {MAX_MEMBERS:,} members")
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
    """The form members that are files or lists of files; their schemas are changed to ask for
    base64. Forms and members may be composed with `allOf` and the like.
    """
    found: set[str] = set()
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, member in cast("dict[str, dict[str, Any]]", properties).items():
            if _is_file(member):
                found.add(name)
                _ask_for_base64(member)
    for key in _TOGETHER:
        found.update(*map(files_of, schema.get(key, ())))
    return frozenset(found)


def _is_file(member: Mapping[str, Any]) -> bool:
    """Whether a member can only be a file, a list of files, or null."""
    if _says_so(member) or any(map(_is_file, member.get("allOf", ()))):
        return True
    items = member.get("items")
    if isinstance(items, dict):
        return _is_file(cast("dict[str, Any]", items))
    for key in ("anyOf", "oneOf"):
        choice = [part for part in member.get(key, ()) if part.get("type") != "null"]
        if choice:
            return all(map(_is_file, choice))
    return False


def _says_so(schema: Mapping[str, Any]) -> bool:
    return schema.get("format") == "binary" or "contentMediaType" in schema


def _ask_for_base64(member: dict[str, Any]) -> None:
    if _says_so(member):
        member.pop("format", None)
        member["contentEncoding"] = "base64"
    items = member.get("items")
    if isinstance(items, dict):
        _ask_for_base64(cast("dict[str, Any]", items))
    for key in _TOGETHER:
        for part in member.get(key, ()):
            _ask_for_base64(part)


def plain_body(media_type: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a body that is neither JSON nor a form: text, or base64 of bytes."""
    kept = {k: v for k, v in described.items() if k in ("title", "description")}
    if is_text(media_type):
        return {**kept, "type": "string", "contentMediaType": media_type}
    return {
        **kept,
        "type": "string",
        "contentMediaType": media_type,
        "contentEncoding": "base64",
    }
