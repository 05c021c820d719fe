"""One tool, prompt or resource as the catalog holds it.

Owns: the records. Never imports anything but the standard library.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

SEARCH_HINT = "anthropic/searchHint"
MAX_HINT_CHARS = 500
MAX_ABOUT_CHARS = 1_000
MAX_KEYWORDS = 20
MAX_KEYWORD_CHARS = 200


def fingerprint(definition: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a definition's canonical JSON: equal content, equal fingerprint."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def alike(one: Any, other: Any) -> bool:
    """Whether two definitions certainly have the same fingerprint, at an eighth of the cost.

    Equal ones may differ in what Python holds to be equal (`1`, `1.0`, `True`), which their bytes
    tell apart; members in another order are not told to be the same.
    """
    if one is other:
        return True
    try:
        return one == other and marshal.dumps(one, 0) == marshal.dumps(other, 0)
    except ValueError:  # not plain JSON
        return False


def same_content(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two definitions have the same fingerprint."""
    return alike(one, other) or (one == other and fingerprint(one) == fingerprint(other))


def keywords_of(info: Mapping[str, Any]) -> str:
    """The keywords of a `serverInfo` (draft SEP-2614), a few of them: many would buy rank."""
    given = info.get("keywords")
    if not isinstance(given, list):
        return ""
    words = [word for word in cast("list[Any]", given) if isinstance(word, str)]
    spaced = " ".join(word[:MAX_KEYWORD_CHARS] for word in words[:MAX_KEYWORDS])
    return " ".join(spaced.split())[:MAX_KEYWORD_CHARS].strip()


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """A tool under its exposed name, with the upstream's JSON verbatim.

    Attributes:
        name: exposed name (`server__tool`), unique in a catalog.
        server: key of the upstream in `armory.yaml`.
        original_name: the name that the upstream knows.
        definition: the upstream's tool object as parsed, unknown fields included; read only.
        fingerprint: SHA-256 of the definition.
        server_title: human name of the upstream (its `serverInfo.title` or `.name`), or "".
        description: what models read: the upstream's, or the configured replacement.
        tags: from configuration and from `_meta`.
        category: from configuration, else None.
        server_about: what the upstream says that it is for, the first 1,000 characters of its
            `serverInfo.keywords`, its `serverInfo.description` and `instructions`, or ""; found by
            it, never shown, so that clients hear nothing when it alone changes.
        examples: queries that a model wrote for it; part of its hint, no news by themselves.
    """

    name: str
    server: str
    original_name: str
    definition: Mapping[str, Any]
    fingerprint: str
    description: str = ""
    server_title: str = ""
    tags: tuple[str, ...] = ()
    category: str | None = None
    server_about: str = field(default="", compare=False)
    examples: tuple[str, ...] = field(default=(), compare=False)

    @property
    def title(self) -> str:
        """Human title: `title`, else `annotations.title`, else ""."""
        title = self.definition.get("title")
        if not isinstance(title, str):
            title = self.annotations.get("title")
        return title if isinstance(title, str) else ""

    @property
    def search_hint(self) -> str:
        """The search hint that the server gives (`anthropic/searchHint`), else ""."""
        meta = self.definition.get("_meta")
        hint = cast("Mapping[str, Any]", meta).get(SEARCH_HINT) if isinstance(meta, dict) else None
        return hint[:MAX_HINT_CHARS] if isinstance(hint, str) else ""

    @property
    def hint(self) -> str:
        """The search hint for clients that search by themselves: the server's own, else tags,
        category and as many examples as fit.
        """
        if self.search_hint:
            return self.search_hint
        found = " ".join(filter(None, (*self.tags, self.category)))
        for example in self.examples:
            longer = f"{found}; {example}" if found else example
            found = longer if len(longer) <= MAX_HINT_CHARS else found
        return found

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Behaviour hints as sent; empty when absent or malformed."""
        value = self.definition.get("annotations")
        return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments; empty when absent or malformed."""
        value = self.definition.get("inputSchema")
        return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}

    @property
    def arguments_schema(self) -> Mapping[str, Any]:
        """The input schema with `type: object` ensured: the APIs of models reject a whole request
        if one tool's schema lacks it.
        """
        schema = self.input_schema
        return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def names_by_server(tools: Iterable[ToolRecord]) -> dict[str, list[str]]:
    """The exposed names of each server's tools, in the order given."""
    found: dict[str, list[str]] = {}
    for tool in tools:
        found.setdefault(tool.server, []).append(tool.name)
    return found


@dataclass(frozen=True, slots=True)
class ListedRecord:
    """A prompt, resource or resource template, likewise verbatim.

    Attributes:
        name: exposed name of a prompt, exposed URI of a resource or URI template.
        server: key of the upstream.
        original_name: the name or URI that the upstream knows.
        definition: the upstream's object as parsed; read only.
        fingerprint: SHA-256 of the definition.
    """

    name: str
    server: str
    original_name: str
    definition: Mapping[str, Any]
    fingerprint: str
