"""One operation of a description as a tool.

Owns: the parts of an operation that are kept, and reading its parameters, body and hints. Does no
I/O.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
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
from armory.openapi.names import argument_name, is_argument_name
from armory.openapi.references import listed_parameters
from armory.openapi.schemas import Schemas
from armory.protocol.headers import HEADER_NAME

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
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_TEXT_CHARS = 2_000
_READ_CHARS = 10_000
"""Characters that are read of a text that is going to be cut: others may refer to the same one, of
megabytes."""
_NAME_CHARS = 200
_PATH_NAME = re.compile(r"\{([^{}]+)\}")


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
    """The request body of an operation.

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
        parameters, body: where its arguments go.
        required: arguments without which it cannot be called.
    """

    name: str
    method: str
    path: str
    tool: Mapping[str, Any]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    required: frozenset[str] = frozenset()


def read_operation(
    document: Document,
    item: Object,
    operation: Object,
    places: Container[str],
    *,
    name: str,
    method: str,
    path: str,
) -> Operation:
    """Convert one operation to a tool.

    Args:
        document: the description.
        item: the path item that it stands in.
        operation: the operation itself.
        places: base URLs, without a slash at their end, that it may be asked at.
        name: of the tool.
        method: HTTP method, lower case.
        path: template below the base URL.

    Raises:
        BadDescription: it cannot be called as it is described; says why.
        RecursionError: it is nested too deeply.
    """
    return _Reader(document, item, operation, places).read(name, method, path)


class _Reader:
    def __init__(
        self,
        document: Document,
        item: Object,
        operation: Object,
        places: Container[str],
    ) -> None:
        self._places = places
        self._document = document
        self._item, self._operation = document.as_openapi(item, operation)
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
        return " ".join(text[:_READ_CHARS].split()) if isinstance(text, str) else ""

    def _description(self, method: str, path: str, summary: str) -> str:
        longer = _stripped(self._operation.get("description"))
        parts = ["Deprecated."] if self._operation.get("deprecated") is True else []
        parts += [summary] if summary else []
        if longer and longer != summary:
            parts.append(longer)
        text = "\n\n".join(parts) or f"{method.upper()} {path}"
        return text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 3]}..."

    def _parameters(self, path: str) -> Iterator[Parameter]:
        found = self._given(path)
        plain = sorted(found, key=lambda key: not is_argument_name(key[1]))  # these keep theirs
        for place, name in plain:
            yield self._parameter(cast("Place", place), name, found[place, name])

    def _given(self, path: str) -> dict[tuple[str, str], Object]:
        """The parameters that are described, by place and name; an operation's own win."""
        found: dict[tuple[str, str], Object] = {}
        for where in (self._item, self._operation):
            for node in listed_parameters(where.get("parameters") or []):
                parameter = self._document.object_at(node, "a parameter")
                place, name = parameter.get("in"), parameter.get("name")
                if place not in _PLACES or not isinstance(name, str) or not name:
                    raise BadDescription("a parameter lacks its name, or says wrongly where it is")
                if place == "header" and name.lower() in _IGNORED_HEADERS:
                    continue
                if place in ("header", "cookie") and not HEADER_NAME.fullmatch(name):
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
        argument = argument_name(name, place, self._properties)
        described = self._schemas.whole(schema)
        text = _stripped(parameter.get("description"))
        if text:
            described["description"] = text[:_TEXT_CHARS]
        if not is_argument_name(name):  # `since<` and `since>` are told apart by this alone
            shown = (name[:_NAME_CHARS], described.get("description", ""))
            described["description"] = ": ".join(filter(None, shown))
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
        self._document.references.spend(len(cast("dict[str, Any]", content)))
        media_type, media = preferred(cast("dict[str, Any]", content))
        described = self._schemas.whole(cast("Object", media).get("schema"))
        if isinstance(body.get("description"), str):
            described.setdefault("description", _stripped(body["description"])[:_TEXT_CHARS])
        argument = (
            "body"
            if "body" not in self._properties
            else argument_name("request_body", "content", self._properties)
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


def _stripped(text: Any) -> str:
    return text[:_READ_CHARS].strip() if isinstance(text, str) else ""
