"""JSON Schemas for tools: complete, small, without references.

Owns: inlining references within limits, and converting OpenAPI 3.0 keywords. Does no I/O.
"""

from __future__ import annotations

from typing import Any, cast

from armory.openapi.document import BadDescription, Document, Object
from armory.openapi.keywords import OF_NAMED_SCHEMAS, OF_SCHEMA, OF_SCHEMAS, usable

MAX_NODES = 1_500
MAX_LEVELS = 14
_DROPPED = frozenset(
    (
        *("$schema", "$id", "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef"),
        *("$recursiveAnchor", "$recursiveRef", "xml", "externalDocs", "discriminator", "example"),
    )
)
_KEPT = ("type", "title", "description", "format")
_TEXT_CHARS = 1_000
MAX_CHARS = 512 * 1024
"""Largest size of one operation's schemas: definitions are no larger
(`upstreams/session/lists/entries.py`)."""


class Schemas:
    """Converts the schemas of one operation, with common limits.

    Args:
        document: where references are looked up.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes = self._chars = 0

    def whole(self, schema: Any) -> dict[str, Any]:
        """A schema without references. Beyond the limits, and where it contains itself, only the
        type is kept.

        Raises:
            BadDescription: a reference leads nowhere, or there is too much of it.
        """
        return self._schema(schema, (), 0)

    def _schema(self, schema: Any, within: tuple[str, ...], level: int) -> dict[str, Any]:
        if schema is True or schema is None:
            return {}
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, dict):
            raise BadDescription("a schema is no object")
        given = cast("dict[str, Any]", schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            target = self._document.object_at(given, "a schema")
            self._document.references.spend(len(target))
            beside = {
                k: v for k, v in given.items() if k != "$ref" and not self._document.before_31
            }
            if reference in within:
                return {**self._outline(target), **self._outline(beside)}
            return self._schema({**target, **beside}, (*within, reference), level)
        self._nodes += 1
        if level > MAX_LEVELS or self._nodes > MAX_NODES:
            return self._outline(given)
        self._document.references.spend(len(given))
        written: dict[str, Any] = {}
        for key, value in given.items():
            if key not in _DROPPED and not key.startswith("x-"):
                self._member(written, key, value, within, level)
        if isinstance(pattern := written.get("pattern"), str):
            self._document.see(pattern)
        _require_only_shown(given, written)
        _as_2020(given, written)
        return {key: value for key, value in written.items() if usable(key, value)}

    def _member(
        self, written: dict[str, Any], key: str, value: Any, within: tuple[str, ...], level: int
    ) -> None:
        if key == "items" and isinstance(value, list):  # as drafts before 2020-12 have it
            key = "prefixItems"
        if key in OF_SCHEMA and isinstance(value, dict):
            written[key] = self._schema(value, within, level + 1)
        elif key in OF_SCHEMAS and isinstance(value, list):
            parts = cast("list[Any]", value)
            written[key] = [self._schema(part, within, level + 1) for part in parts]
        elif key in OF_NAMED_SCHEMAS and isinstance(value, dict):
            self._grow(sum(map(len, cast("dict[str, Any]", value))))
            written[key] = {
                name: self._schema(part, within, level + 1)
                for name, part in cast("dict[str, Any]", value).items()
                if not self._is_read_only(part)
            }
        elif key == "required" and isinstance(value, list):
            names = cast("list[Any]", self._kept(value))
            written[key] = [name for name in names if isinstance(name, str)]
        elif key == "description" and isinstance(value, str):
            written[key] = self._kept(value[:_TEXT_CHARS])
        elif key not in ("$defs", "definitions", "nullable", "readOnly", "writeOnly"):
            written[key] = self._kept(value)

    def _kept(self, value: Any) -> Any:
        """A value that is copied unchanged, after it is counted."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, dict):
                named = cast("dict[str, Any]", each)
                self._grow(sum(map(len, named)))
                waiting.extend(named.values())
            elif isinstance(each, list):
                items = cast("list[Any]", each)
                self._grow(len(items))
                waiting.extend(items)
            else:
                self._grow(len(each) if isinstance(each, str) else 1)
        return value

    def _grow(self, chars: int) -> None:
        """Count characters of the definition, and the time that they take."""
        self._chars += chars
        if self._chars > MAX_CHARS:
            raise BadDescription(f"its definition has more than {MAX_CHARS:,} characters")
        self._document.references.spend(1 + chars // 16)

    def _outline(self, schema: Object) -> dict[str, Any]:
        """The remainder of a schema that is not expanded."""
        self._document.references.spend(1)
        return {
            key: self._kept(value[:_TEXT_CHARS] if isinstance(value, str) else value)
            for key in _KEPT
            if isinstance(value := schema.get(key), str | list)
        }

    def _is_read_only(self, part: Any) -> bool:
        try:
            found = self._document.follow(part)
        except BadDescription:
            return False  # said where the schema itself is written
        return isinstance(found, dict) and cast("Object", found).get("readOnly") is True


def _as_2020(given: Object, written: dict[str, Any]) -> None:
    """Convert the few keywords that have another meaning in OpenAPI 3.0, also if they
    occur in 3.1.
    """
    for bound, word in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        exclusive = written.get(word)
        if isinstance(exclusive, bool):
            del written[word]
            if exclusive and bound in written:
                written[word] = written.pop(bound)
    if given.get("nullable") is True and isinstance(written.get("type"), str):
        written["type"] = [written["type"], "null"]
        if isinstance(written.get("enum"), list) and None not in written["enum"]:
            written["enum"] = [*written["enum"], None]


def _require_only_shown(given: Object, written: dict[str, Any]) -> None:
    """Remove members from `required` that are not shown."""
    all_of, shown = given.get("properties"), written.get("properties")
    required: Any = written.get("required")
    if isinstance(all_of, dict) and isinstance(shown, dict) and isinstance(required, list):
        left_out = cast("Object", all_of).keys() - cast("Object", shown).keys()
        written["required"] = [name for name in cast("list[Any]", required) if name not in left_out]
