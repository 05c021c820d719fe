"""The operations of a description: each one a tool.

Owns: names, input schemas and annotations of tools, and why an operation is none. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from armory.openapi.document import BadDescription, Document, Object
from armory.openapi.media import (
    FORMS,
    MULTIPART,
    Member,
    files_of,
    is_json,
    members_of,
    plain_body,
    preferred,
)
from armory.openapi.schemas import Schemas

MAX_OPERATIONS = 2_000
MAX_PARAMETERS = 200
METHODS = ("get", "put", "post", "delete", "patch")
Place = Literal["path", "query", "header", "cookie"]
_PLACES = ("path", "query", "header", "cookie")
_IGNORED_HEADERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "content-type",
        "authorization",
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "cookie",
        "proxy-authorization",
    )
)
"""OpenAPI leaves out some of them; the others are the connection's own."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_TEXT_CHARS = 2_000
_NAME_CHARS = 200
_PATH_NAME = re.compile(r"\{([^{}]+)\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_ARGUMENT_CHARS = 64
_ARGUMENT = re.compile(rf"[A-Za-z0-9_.-]{{1,{_ARGUMENT_CHARS}}}")
"""What providers of models take for the name of an argument; for one tool with another, Anthropic's
API refuses every request that holds the tool."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    Attributes:
        argument: its name among the tool's arguments.
        name: its name on the wire.
        place: where it travels.
        style, explode: how lists and objects are written there.
        as_json: whether it is written as JSON instead.
        reserved: whether reserved characters stay as they are.
        in_body: whether it is a member of a form.
    """

    argument: str
    name: str
    place: Place
    style: str
    explode: bool
    as_json: bool = False
    reserved: bool = False
    in_body: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What an operation takes beside its parameters.

    Attributes:
        argument: its name among the tool's arguments.
        media_type: what it is sent as.
        binary: of a form, the members that are files.
        members: of a form, how those travel of which the description says it.
    """

    argument: str
    media_type: str
    binary: frozenset[str] = frozenset()
    members: Mapping[str, Member] = field(default_factory=dict[str, Member])


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that can be called.

    Attributes:
        name: of the tool.
        method: HTTP method, upper case.
        path: template below the base URL.
        tool: the definition, as `tools/list` has it.
        required: arguments without which it cannot be called.
    """

    name: str
    method: str
    path: str
    tool: Mapping[str, Any]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    required: frozenset[str] = frozenset()


@dataclass(slots=True)
class Operations:
    """What a description offers.

    Attributes:
        by_name: the operations that can be called.
        left_out: name and reason of each that cannot.
    """

    by_name: dict[str, Operation] = field(default_factory=dict[str, Operation])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def read_operations(
    document: Document,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    base: str | None = None,
) -> Operations:
    """Every operation that is wanted; one that cannot be read costs itself alone.

    Args:
        document: the description.
        include: glob patterns of names, or of `METHOD /path`; none: all.
        exclude: likewise; wins.
        base: where the API is said to be by the configuration; None: where the description says.
    """
    found = Operations()
    places = frozenset(place.rstrip("/") for place in document.places(base))
    for path, method, item, operation in _each(document, found):
        name = _name(method, path, operation, found.by_name)
        labels = (name, f"{method.upper()} {path}")
        if (include and not _any(labels, include)) or _any(labels, exclude):
            continue
        if len(found.by_name) >= MAX_OPERATIONS:
            found.left_out.append((name, f"there are more than {MAX_OPERATIONS:,} operations"))
            continue
        try:
            found.by_name[name] = _Reader(document, item, operation, places).read(
                name, method, path
            )
        except BadDescription as problem:
            found.left_out.append((name, str(problem)))
        except RecursionError:
            found.left_out.append((name, "it is nested too deeply"))
    return found


def _each(
    document: Document, found: Operations
) -> Iterator[tuple[str, str, Object, dict[str, Any]]]:
    for path, node in cast("Object", document.content.get("paths") or {}).items():
        if path.startswith("x-"):
            continue
        try:
            item = document.object_at(node, "its path item")
        except BadDescription as problem:
            found.left_out.append((path, str(problem)))
            continue
        for method in METHODS:
            if method in item:
                try:
                    operation = document.object_at(item[method], "it")
                except BadDescription as problem:
                    found.left_out.append((f"{method.upper()} {path}", str(problem)))
                else:
                    yield path, method, item, cast("dict[str, Any]", operation)


def _any(labels: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(label, pattern) for label in labels for pattern in patterns)


def _name(method: str, path: str, operation: Object, taken: Mapping[str, object]) -> str:
    given = operation.get("operationId")
    name = _UNSAFE.sub("_", given).strip("_")[:128] if isinstance(given, str) else ""
    if name and name not in taken:
        return name
    words = _UNSAFE.sub("_", path.replace("{", "by_").replace("}", "")).strip("_")
    plain = f"{method}_{words}" if words else method
    name, number = plain[:120], 2
    while name in taken:
        name, number = f"{plain[:120]}_{number}", number + 1
    return name


class _Reader:
    def __init__(
        self,
        document: Document,
        item: Object,
        operation: dict[str, Any],
        places: frozenset[str],
    ) -> None:
        self._places = places
        self._document = document
        self._item = item
        self._operation = operation
        self._schemas = Schemas(document)
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def read(self, name: str, method: str, path: str) -> Operation:
        for where in (self._item, self._operation):
            own = self._document.place_of(where["servers"]) if where.get("servers") else ""
            if own and own.rstrip("/") not in self._places:
                raise BadDescription(f"it has servers of its own, {own[:200]}, which are not asked")
        parameters = tuple(self._parameters(path))
        missing = set(_PATH_NAME.findall(path)) - {p.name for p in parameters if p.place == "path"}
        if missing:
            raise BadDescription(f"its path has {{{min(missing)}}}, which no parameter describes")
        body = self._body()
        schema: dict[str, Any] = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        summary = self._text("summary")
        tool = {
            "name": name,
            **({"title": summary} if summary and len(summary) <= 80 else {}),
            "description": self._description(method, path, summary),
            "inputSchema": schema,
            "annotations": {
                "readOnlyHint": method == "get",
                "destructiveHint": method in ("delete", "put", "patch"),
                "idempotentHint": method in ("get", "put", "delete"),
                "openWorldHint": True,
            },
        }
        required = frozenset(self._required)
        return Operation(name, method.upper(), path, tool, parameters, body, required)

    def _text(self, member: str) -> str:
        text = self._operation.get(member) or self._item.get(member)
        return " ".join(text.split()) if isinstance(text, str) else ""

    def _description(self, method: str, path: str, summary: str) -> str:
        longer = self._operation.get("description")
        parts = ["Deprecated."] if self._operation.get("deprecated") is True else []
        parts += [summary] if summary else []
        if isinstance(longer, str) and longer.strip() and longer.strip() != summary:
            parts.append(longer.strip())
        text = "\n\n".join(parts) or f"{method.upper()} {path}"
        return text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 3]}..."

    def _parameters(self, path: str) -> Iterator[Parameter]:
        found = self._given(path)
        if len(found) > MAX_PARAMETERS:
            raise BadDescription(f"it has more than {MAX_PARAMETERS} parameters")
        plain = sorted(found, key=lambda key: not _ARGUMENT.fullmatch(key[1]))  # these keep theirs
        for place, name in plain:
            yield self._parameter(cast("Place", place), name, found[place, name])

    def _argument(self, name: str, place: str) -> str:
        """A name among the arguments that no other has."""
        if not _ARGUMENT.fullmatch(name):
            name = _UNSAFE.sub("_", name).strip("_") or place
        found, number = name[:_ARGUMENT_CHARS], 1
        while found in self._properties:
            end = f"_{place}" if number == 1 else f"_{place}_{number}"
            found, number = f"{name[: _ARGUMENT_CHARS - len(end)]}{end}", number + 1
        return found

    def _given(self, path: str) -> dict[tuple[str, str], Object]:
        """The parameters that are described, by place and name; an operation's own win."""
        found: dict[tuple[str, str], Object] = {}
        for where in (self._item, self._operation):
            listed: Any = where.get("parameters") or []
            if not isinstance(listed, list):
                raise BadDescription("its parameters are no list")
            for node in cast("list[Any]", listed):
                parameter = self._document.object_at(node, "a parameter")
                place, name = parameter.get("in"), parameter.get("name")
                if place not in _PLACES or not isinstance(name, str) or not name:
                    raise BadDescription("a parameter lacks its name, or says wrongly where it is")
                if place == "header" and name.lower() in _IGNORED_HEADERS:
                    continue
                if place in ("header", "cookie") and not _TOKEN.fullmatch(name):
                    raise BadDescription(f"no {place} can be called {name[:80]!r}")
                if place != "path" or f"{{{name}}}" in path:
                    found[place, name] = parameter
        return found

    def _parameter(self, place: Place, name: str, parameter: Object) -> Parameter:
        content = parameter.get("content")
        schema = parameter.get("schema")
        if isinstance(content, dict) and content:
            media: Any = next(iter(cast("dict[str, Any]", content).values()))
            schema = cast("Object", media).get("schema") if isinstance(media, dict) else None
        styles = _STYLES[place]
        style = parameter.get("style", styles[0])
        argument = self._argument(name, place)
        described = self._schemas.whole(schema)
        text = parameter.get("description")
        if isinstance(text, str) and text.strip():
            described["description"] = text.strip()[:_TEXT_CHARS]
        if not _ARGUMENT.fullmatch(name):  # `since<` and `since>` are told apart by this alone
            told = (name[:_NAME_CHARS], described.get("description", ""))
            described["description"] = ": ".join(filter(None, told))
        self._properties[argument] = described
        if place == "path" or parameter.get("required") is True:
            self._required.append(argument)
        explode = parameter.get("explode")
        if style == "simple" and place == "query":  # it can only mean one text with commas
            style, explode = "form", explode is True
        if style not in styles:
            raise BadDescription(f"its parameter {name!r} has the style {str(style)[:40]!r}")
        return Parameter(
            argument,
            name,
            place,
            style,
            explode if isinstance(explode, bool) else style == "form",
            as_json=isinstance(content, dict),
            reserved=parameter.get("allowReserved") is True,
        )

    def _body(self) -> Body | None:
        if "requestBody" not in self._operation:
            return None
        body = self._document.object_at(self._operation["requestBody"], "its requestBody")
        content = body.get("content")
        if not isinstance(content, dict) or not content:
            raise BadDescription("its requestBody has no content")
        media_type, media = preferred(cast("dict[str, Any]", content))
        described = self._schemas.whole(cast("Object", media).get("schema"))
        if isinstance(body.get("description"), str):
            described.setdefault("description", body["description"].strip()[:_TEXT_CHARS])
        argument = (
            "body" if "body" not in self._properties else self._argument("request_body", "content")
        )
        binary = files_of(described)
        if not is_json(media_type) and media_type not in FORMS:
            described = plain_body(media_type, described)
        self._properties[argument] = described
        if body.get("required") is True:
            self._required.append(argument)
        members = members_of(cast("Object", media).get("encoding")) if media_type in FORMS else {}
        if media_type != MULTIPART:
            binary = frozenset[str]()
        return Body(argument, media_type, binary, members)
