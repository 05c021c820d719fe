"""Media types of bodies, and the schemas of what is sent as one of them.

Owns: which media type is sent, and how files and plain bodies are asked for. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from armory.openapi.references import BadDescription

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
FORMS = (FORM, MULTIPART)


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


def files_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The members of a form that are files; their schemas are made to ask for base64."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return frozenset()
    found: set[str] = set()
    for name, part in cast("dict[str, dict[str, Any]]", properties).items():
        if part.get("format") == "binary" or "contentMediaType" in part:
            found.add(name)
            part.pop("format", None)
            part["contentEncoding"] = "base64"
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
