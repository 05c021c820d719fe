"""The indexed document of a tool: texts for the embedder, fields for lexical search.

Owns: the embedding strategies (`description`, `description_params`, `synthetic_queries` by
templates) and the lexical fields. Never imports embedders, indexes or anything above the domain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from armory.domain.tool import ToolRecord
from armory.retrieval.lexical.bm25 import Fields
from armory.retrieval.lexical.text import spaced
from armory.retrieval.options import STRATEGY, Strategy

#: Bounds of a description: text beyond them is not searched, so that length (or stuffing) does not
#: pay.
MAX_WORDS = 120
MAX_PARAMS = 24
_PARAM_WORDS = 14
#: Objects within objects that are looked into; of one tool so many schemas, of a choice so many.
_DEEPEST, _SHAPES, _CHOSEN = 2, 256, 32
_CHOICES = ("allOf", "anyOf", "oneOf")
_ABOUT_WORDS = 60
_SPACES = re.compile(r"\s+")
_BETWEEN = re.compile(r"[\s_/@:-]+")
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")
_LEAD = re.compile(
    r"^(?:this|the)?\s*+(?:(?:tool|api|endpoint|function|method)\s*+)?"
    r"(?:can be used to|is used to|used to|allows? (?:you|users?) to|lets you|will|to)\s+",
    re.IGNORECASE,
)
#: What servers call themselves beside their name: `example-servers/postgres`, `Slack MCP Server`.
_SERVER_NOISE = frozenset(["mcp", "fastmcp", "server", "servers", "example", "examples"])
#: Sentences that speak to the model instead of saying what the tool does.
_ADDRESS = re.compile(
    r"\b(?:always|must|never|only)\s+(?:\w+\s+){0,2}(?:use|call|choose|prefer|select|pick|invoke)"
    r"|\b(?:use|call|choose|prefer|select|pick|invoke)\s+(?:this|me)\b(?:\s+\w+)?"
    r"\s*(?:first|always|instead|before|for (?:every|any|all)|over|whenever)"
    r"|\bignore\s+(?:all|any|the|previous|other)\b"
    r"|\b(?:best|preferred|recommended|superior|only)\s+(?:tool|choice|option)\b"
    r"|\bbefore (?:any|all) other\b|\byou (?:must|should|are required to)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Document:
    """The indexed document of one tool.

    Attributes:
        texts: one vector each; the best one counts. Never empty, no empty text.
        fields: for the lexical side.
    """

    texts: tuple[str, ...]
    fields: Fields


def parameters(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, description) of a schema's properties, nested ones under their parent's; bounded."""
    found: dict[tuple[str, str], None] = {}
    _collect(schema, schema, found, set(), depth=0)
    return list(found)


def _collect(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    found: dict[tuple[str, str], None],
    seen: set[int],
    depth: int,
) -> None:
    if depth > _DEEPEST:
        return
    for shape in _shapes(schema, root, seen):
        properties = shape.get("properties")
        if not isinstance(properties, Mapping):
            continue
        for name, spec in cast("Mapping[str, Any]", properties).items():
            if len(found) >= MAX_PARAMS:
                return
            entry = cast("Mapping[str, Any]", spec) if isinstance(spec, Mapping) else {}
            text = entry.get("description")
            found[str(name), _clean(text) if isinstance(text, str) else ""] = None
            _collect(entry, root, found, seen, depth + 1)


def _shapes(
    schema: Mapping[str, Any], root: Mapping[str, Any], seen: set[int]
) -> list[Mapping[str, Any]]:
    """A schema and what stands for it: of its items, of choices, what it refers to; each once in a
    tool, since many may refer to it, itself among them.
    """
    shapes: list[Mapping[str, Any]] = []

    def add(one: object) -> None:
        if isinstance(one, Mapping) and id(one) not in seen and len(seen) < _SHAPES:
            seen.add(id(one))
            shapes.append(cast("Mapping[str, Any]", one))

    add(schema)
    for shape in shapes:  # which grows meanwhile
        add(_referred(shape, root))
        add(shape.get("items"))
        for key in _CHOICES:
            choices = shape.get(key)
            for one in cast("list[Any]", choices)[:_CHOSEN] if isinstance(choices, list) else ():
                add(one)
    return shapes


def _referred(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any] | None:
    """The part of the same document that a schema refers to; None: it does not, or to nothing."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = root
    for part in reference.split("/", _SHAPES)[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def _clean(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def plain_description(description: str) -> str:
    """A description without sentences that address the model, cut to 120 words.

    "Always use this tool first" says nothing about what a tool does; it may not buy rank. When
    nothing else is left, the text stays as it is.
    """
    sentences = [s for s in _SENTENCE.split(description[:20_000]) if s.strip()]
    kept = [s for s in sentences if not _ADDRESS.search(s)] or sentences
    return " ".join(" ".join(kept).split()[:MAX_WORDS])


def fields_of(tool: ToolRecord) -> Fields:
    """The lexical fields of a tool."""
    listed = parameters(tool.input_schema)
    return Fields(
        name=tool.original_name,
        server=" ".join(dict.fromkeys(s for s in (_called(tool.server_title), tool.server) if s)),
        title=tool.title,
        description=plain_description(tool.description),
        params=" ".join(f"{name} {text}" for name, text in listed),
        tags=" ".join(filter(None, (*tool.tags, tool.category, tool.search_hint, _about(tool)))),
    )


def _about(tool: ToolRecord) -> str:
    """What its server is for, shorter than a description: the same words for each of its tools."""
    return " ".join(plain_description(tool.server_about).split()[:_ABOUT_WORDS])


def _called(title: str) -> str:
    """A server's title without the words that all servers have; "" where it has no others."""
    words = (word for word in _BETWEEN.split(title) if word.lower() not in _SERVER_NOISE)
    return " ".join(filter(None, words))


def _server(tool: ToolRecord) -> str:
    return spaced(_called(tool.server_title) or tool.server)


def _heading(tool: ToolRecord) -> str:
    name, server = spaced(tool.original_name), _server(tool)
    title = _clean(tool.title)
    if title and spaced(title) != name:
        name = f"{name} ({title})"
    return f"{server} {name}" if server and not name.startswith(server) else name


def _with_params(heading: str, description: str, tool: ToolRecord) -> str:
    listed = "; ".join(
        spaced(name) + (f" ({' '.join(text.split()[:_PARAM_WORDS])})" if text else "")
        for name, text in parameters(tool.input_schema)[:10]
    )
    if not listed:
        return ""
    short = " ".join(description.split()[:60])
    return f"{heading}: {short} Parameters: {listed}"


def template_queries(tool: ToolRecord) -> list[str]:
    """Queries that somebody who needs this tool might ask, made without a model, best first."""
    sentences = [s for s in _SENTENCE.split(plain_description(tool.description)) if s.strip()]
    name, server = spaced(tool.original_name), _server(tool)
    wanted = _LEAD.sub("", sentences[0].strip().rstrip(".!")) if sentences else ""
    found = [wanted] if len(wanted.split()) >= 3 else []
    names = " and ".join(spaced(n) for n, _ in parameters(tool.input_schema)[:2])
    found.append(f"{name} given {names}" if names else name)
    if server:
        found.append(f"{wanted or name} with {server}")
    return list(dict.fromkeys(found))


def document_of(
    tool: ToolRecord, strategy: Strategy = STRATEGY, queries: Sequence[str] = ()
) -> Document:
    """The document of a tool under a strategy.

    Args:
        tool: the record.
        strategy: `description`: server, name and description in one text. `description_params`:
            the same, and a second text that adds the parameters, where there are any, and a third
            with what the server says that it is for, where it does.
            `synthetic_queries`: both, and every query a text of its own.
        queries: generated queries; without any, `synthetic_queries` makes them by templates.
    """
    heading, description = _heading(tool), plain_description(tool.description)
    found = [f"{heading}: {description}" if description else heading]
    if strategy != "description":
        found.append(_with_params(heading, description, tool))
        if about := _about(tool):
            found.append(f"{heading}: {about}")
    if strategy == "synthetic_queries":
        found.extend(_nonempty(queries) or template_queries(tool))
    unique = dict.fromkeys(text for text in found if text.strip())
    return Document(tuple(unique) or (tool.name,), fields_of(tool))


def _nonempty(texts: Iterable[str]) -> list[str]:
    return [text for text in map(_clean, texts) if text]
