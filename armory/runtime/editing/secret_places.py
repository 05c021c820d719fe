"""Locates the secrets in the text of a configuration file.

Owns: finding them, by what the models declare secret, by names, and by what is redacted everywhere.
Never changes a text. Imports the models and redaction only.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import yaml
from pydantic import BaseModel, SecretStr

from armory.config import Config
from armory.config.blocks.upstream import UpstreamConfig
from armory.observability.redaction import (
    CREDENTIAL_SCHEME,
    is_count,
    looks_random,
    names_secret,
    secret_arguments,
    secret_spans,
)

Span = tuple[int, int]
_CLIENT_MAPS = ("mcpServers", "servers")
_PROPERTIES = re.compile(r"(?:[&!][^\s]*\s+)+")
_REFERENCE = re.compile(r"\$\{(?:env:|input:)?[A-Za-z_][A-Za-z0-9_-]*(?::-)?\}")
_PARAMETER = re.compile(r"[?&]([\w.-]+)=([^&#\s\"']+)")
_PATH = re.compile(r"https?://[^\s/?#\"']++(/[^\s?#\"']*+)")
_WORD = re.compile(r"([^\s?#\"']++)(\?[^\s#\"']++)?")
_PART = re.compile(r"[^/]+")
_COMMENT = re.compile(r"#[^\n]*")
_ASSIGNED = re.compile(r"(?<![\w-])([\w-]++)[\"']?\s*+[:=]\s*+([^\s,{}\[\]]++)(?=\s*+(?:[,}\]]|$))")
_PLAIN_TAGS = frozenset(("tag:yaml.org,2002:null", "tag:yaml.org,2002:bool"))
_FREE: Any = None
"""Type of what no model describes: there, names say what is secret."""


def secret_places(text: str, node: yaml.Node | None, *, parameters: bool = False) -> list[Span]:
    """(start, end) of every secret in `text`, in order, not nested.

    A reference to a variable is no secret; its default value is one.

    Args:
        text: a configuration file.
        node: what `composed` makes of it.
        parameters: whether every parameter of a web address counts as one, whatever it is called:
            a short key looks like any other value.

    Raises:
        RecursionError: it is nested too deep; what is secret in it is not known.
    """
    found = _Finder(text, parameters)
    if node is not None:
        found.walk(node, Config, "")
    found.look_between()
    return _apart(found.secrets)


@dataclass(slots=True)
class _Finder:
    text: str
    parameters: bool
    secrets: list[Span] = field(default_factory=list[Span])
    scalars: set[Span] = field(default_factory=set[Span])
    seen: set[tuple[int, str, str]] = field(default_factory=set[tuple[int, str, str]])

    def walk(self, node: yaml.Node, kind: Any, name: str) -> None:
        """Inspect a value of the type `kind`; `name` is its key, or that of its list."""
        visit = (id(node), repr(kind), name)
        if visit in self.seen:  # an alias
            return
        self.seen.add(visit)
        if isinstance(node, yaml.ScalarNode):
            self._scalar(node, kind, name)
        elif isinstance(node, yaml.SequenceNode):
            for entry in node.value:
                self.walk(entry, _item(kind), name)
            self._arguments(node)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self.scalars.add(self._span(key))
                inner = str(key.value)
                self.walk(value, *((kind, name) if inner == "<<" else _member(kind, inner)))

    def _scalar(self, node: yaml.ScalarNode, kind: Any, name: str) -> None:
        span = self._span(node)
        self.scalars.add(span)
        declared = _holds(kind, SecretStr)
        if declared or (name and names_secret(name) and node.tag not in _PLAIN_TAGS):
            self._hide(span)
        raw = self.text[slice(*span)]
        self._hide_parts(raw, span[0])

    def _arguments(self, node: yaml.SequenceNode) -> None:
        """`--token VALUE` and `--token=VALUE`."""
        entries = [entry for entry in node.value if isinstance(entry, yaml.ScalarNode)]
        for place, offset, _ in secret_arguments([str(entry.value) for entry in entries]):
            start, end = self._span(entries[place])
            if offset:
                closing = self.text[end - 1] in "\"'" and self.text[start] in "\"'"
                start, end = self.text.find("=", start, end) + 1, end - closing
            self._hide((start, end))

    def look_between(self) -> None:
        """Inspect comments: for what is redacted everywhere, and `name: value` with a secret's
        name.
        """
        at = 0
        ends = [*sorted(self.scalars), (len(self.text), len(self.text))]
        for start, end in ends:
            for match in _COMMENT.finditer(self.text, at, max(at, start)):
                self._hide_parts(match[0], match.start())
                for assigned in _ASSIGNED.finditer(match[0]):
                    if names_secret(assigned[1]) and not is_count(assigned[2]):
                        self._hide(assigned.span(2), match.start())
            at = max(at, end)

    def _hide_parts(self, raw: str, at: int) -> None:
        for start, end in secret_spans(raw):
            colon = raw.find(":", start, end) if raw[max(0, start - 3) : start] == "://" else -1
            self._hide((colon + 1 if colon >= 0 else start, end), at)
        for match in _PARAMETER.finditer(raw):
            if names_secret(match[1]) or looks_random(unquote(match[2])):
                self._hide(match.span(2), at)
        if self.parameters:
            for span in _parameters(raw):
                self._hide(span, at)
        for path in _PATH.finditer(raw):  # hosted servers have a key there
            for part in _PART.finditer(raw, *path.span(1)):
                if looks_random(part[0]):
                    self._hide(part.span(), at)

    def _hide(self, span: Span, at: int = 0) -> None:
        start, end = span[0] + at, span[1] + at
        value = self.text[start:end].strip().strip("\"'")
        scheme = CREDENTIAL_SCHEME.match(value)
        bare = value[scheme.end() :] if scheme else value
        if _REFERENCE.sub("", bare).strip() and value not in ("~", "null"):
            self.secrets.append((start, end))

    def _span(self, node: yaml.Node) -> Span:
        """The position of the value alone: without its anchor and tag, and without
        following lines.
        """
        start, end = node.start_mark.index, node.end_mark.index
        properties = _PROPERTIES.match(self.text, start, end)
        start = properties.end() if properties else start
        return start, start + len(self.text[start:end].rstrip())


def _parameters(raw: str) -> Iterator[Span]:
    """The values of all parameters of HTTP addresses."""
    for word in _WORD.finditer(raw):
        if word[2] and ("http://" in word[1] or "https://" in word[1]):
            for match in _PARAMETER.finditer(raw, *word.span(2)):
                yield match.span(2)


def _apart(spans: list[Span]) -> list[Span]:
    """The spans in order, overlapping ones merged."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > start:
            found.append((start, end))
    return found


def _options(kind: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _options(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(one for part in typing.get_args(kind) for one in _options(part))
    return (kind,)


def _holds(kind: Any, wanted: type) -> bool:
    return kind is not _FREE and wanted in _options(kind)


def _item(kind: Any) -> Any:
    for option in _options(kind):
        if typing.get_origin(option) is list:
            return typing.get_args(option)[0]
    # a list where no list is expected is a mistake: judge it by the same type
    return kind


def _member(kind: Any, key: str) -> tuple[Any, str]:
    """(type, name for redaction) of the value at `key`; fields of models are judged by
    type only.
    """
    for option in _options(kind):
        if isinstance(option, type) and issubclass(option, BaseModel):
            known = option.model_fields.get(key)
            if known is not None:
                return known.annotation, ""
            if option is Config and key in _CLIENT_MAPS:
                return dict[str, UpstreamConfig], ""
            return _FREE, key
        if typing.get_origin(option) is dict:
            inner = typing.get_args(option)[1]
            return inner, key if str in _options(inner) else ""
    return _FREE, key
