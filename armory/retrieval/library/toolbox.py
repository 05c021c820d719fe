"""What `ToolMemory` remembers: tools as values, from callables or JSON, to records and back.

Owns: `Tool`, its schema from a signature, its JSON. Never imports the retriever.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NoReturn, TypedDict, Union, cast, get_args, get_origin

from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import InvalidRequest

Handle = Callable[..., Any]
_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    set: "array",
    dict: "object",
}
_MEMBERS = (
    "identifier", "name", "title", "description", "tags", "inputSchema", "outputSchema", "examples",
    "metadata", "private", "handle", "annotations", "icons", "execution", "_meta",
)  # fmt: skip
"""What the JSON of a tool may have; of MCP's own some say nothing to retrieval."""


def said(value: object) -> str:
    """A value as a message shows it, however long it is."""
    return reprlib.repr(value)


class SelectedTool(TypedDict):
    """A selected tool: what it is, what runs it, and how well it fits.

    `_score` is the cosine in [-1, 1] (0 without an embedder), `_relevance` the calibrated score in
    [0, 1], `_reason` one sentence.
    """

    identifier: str
    name: str
    description: str
    tags: list[str]
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] | None
    metadata: dict[str, Any]
    handle: Handle | None
    _score: float
    _relevance: float
    _reason: str


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool to remember.

    Attributes:
        identifier: unique in a memory.
        name: what models see.
        description: what it does.
        tags: free words; searched and usable for boosts.
        input_schema: JSON Schema of the arguments.
        output_schema: JSON Schema of the result, or None.
        examples: queries that want this tool; each is embedded, the best one counts.
        metadata: anything to filter by. `private: True` hides the tool unless asked for.
        handle: what runs it; never saved.

    Raises:
        InvalidRequest: one of them is of another type.
    """

    identifier: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output_schema: Mapping[str, Any] | None = None
    examples: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    handle: Handle | None = None

    def __post_init__(self) -> None:
        for name in ("identifier", "name"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                self._refuse(name, "a text that is not empty")
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers need not check types
            self._refuse("description", "a text")
        for name in ("tags", "examples"):
            given: Any = getattr(self, name)
            if not isinstance(given, list | tuple) or not all(
                isinstance(one, str) for one in cast("list[Any]", given)
            ):
                self._refuse(name, "a list of texts")
            object.__setattr__(self, name, tuple(cast("list[str]", given)))
        for name in ("input_schema", "metadata"):
            if not isinstance(getattr(self, name), Mapping):
                self._refuse(name, "an object")
        if not isinstance(self.output_schema, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance] # as above
            self._refuse("output_schema", "an object, or None")
        if self.handle is not None and not callable(self.handle):
            self._refuse("handle", "something that can be called, or None")

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise InvalidRequest(
            f"tool {said(self.identifier)}: {name} is {said(getattr(self, name))}, expected "
            f"{expected}",
            parameter=name,
        )

    @property
    def private(self) -> bool:
        """Whether the tool is hidden unless asked for."""
        return bool(self.metadata.get("private"))

    @classmethod
    def of(cls, given: Tool | Handle | Mapping[str, Any] | tuple[str, Mapping[str, Any]]) -> Tool:
        """A tool from itself, a callable (name, docstring, signature), an MCP-like mapping, or
        (identifier, mapping).

        Raises:
            InvalidRequest: none of these, or a mapping without a name.
        """
        if isinstance(given, Tool):
            return given
        if isinstance(given, Mapping):
            return tool_of_json(given)
        if isinstance(given, tuple):
            return _tool_of_pair(given)
        if not callable(given):
            raise InvalidRequest(f"{given!r} is no tool: a Tool, a callable or a mapping is needed")
        function = _function_of(given)
        name = getattr(function, "__name__", type(function).__name__)
        return cls(
            identifier=name,
            name=name,
            description=inspect.getdoc(function) or "",
            input_schema=schema_of(given),
            handle=given,
        )

    def record(self) -> ToolRecord:
        """As retrieval sees it.

        Raises:
            InvalidRequest: a schema is no JSON.
        """
        definition: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": dict(self.input_schema),
        }
        if self.output_schema is not None:
            definition["outputSchema"] = dict(self.output_schema)
        if self.examples:
            definition["examples"] = list(self.examples)
        try:
            mark = fingerprint(definition)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(
                f"tool {self.identifier!r}: its schema is no JSON: {error}",
                parameter="input_schema",
            ) from error
        category = self.metadata.get("category")
        return ToolRecord(
            name=self.identifier,
            server=str(self.metadata.get("server") or ""),
            original_name=self.name,
            definition=definition,
            fingerprint=mark,
            description=self.description,
            tags=self.tags,
            category=category if isinstance(category, str) else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the handle."""
        return {
            "identifier": self.identifier,
            "name": self.name,
            "description": self.description,
            "tags": list(self.tags),
            "inputSchema": dict(self.input_schema),
            "outputSchema": None if self.output_schema is None else dict(self.output_schema),
            "examples": list(self.examples),
            "metadata": dict(self.metadata),
        }


ATTRIBUTES = tuple(one.name for one in fields(Tool) if one.name != "identifier")
"""What of a tool can be updated."""


def _tool_of_pair(given: tuple[Any, ...]) -> Tool:
    """A tool from (identifier, its JSON)."""
    if len(given) != 2 or not isinstance(given[0], str) or not isinstance(given[1], Mapping):
        raise InvalidRequest("a tuple that stands for a tool is (identifier, mapping)")
    identifier, told = given[0], cast("Mapping[str, Any]", given[1])
    return tool_of_json({"name": identifier, **told, "identifier": identifier})


def tool_of_json(given: Mapping[str, Any]) -> Tool:
    """A tool from JSON as `Tool.to_json` writes it, or from an MCP tool definition.

    Raises:
        InvalidRequest: no name, or a part of the wrong type.
    """
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"a tool needs a name, got {name!r}", parameter="name")
    unknown = [key for key in given if key not in _MEMBERS]
    if unknown:
        raise InvalidRequest(
            f"tool {name!r} has {unknown[0]!r}, which is not known; known: {', '.join(_MEMBERS)}. "
            "What a filter is to see goes into `metadata`",
            parameter=str(unknown[0]),
        )
    private = given.get("private")
    if private is not None and not isinstance(private, bool):
        raise InvalidRequest(f"tool {name!r}: private is {private!r}", parameter="private")
    parts: dict[str, Any] = {}
    for key, kind, expected in (
        ("inputSchema", Mapping, "an object"), ("outputSchema", Mapping, "an object"),
        ("metadata", Mapping, "an object"), ("tags", (list, tuple), "a list of texts"),
        ("examples", (list, tuple), "a list of texts"),
    ):  # fmt: skip
        value = given.get(key)
        if value is not None and not isinstance(value, kind):
            raise InvalidRequest(
                f"tool {name!r}: {key} is {said(value)}, expected {expected}", parameter=key
            )
        parts[key] = value or ()
    return Tool(
        identifier=str(given.get("identifier") or name),
        name=name,
        description=str(given.get("description") or ""),
        tags=tuple(map(str, parts["tags"])),
        input_schema=dict(parts["inputSchema"]),
        output_schema=given.get("outputSchema"),
        examples=tuple(map(str, parts["examples"])),
        metadata={**dict(parts["metadata"]), **({} if private is None else {"private": private})},
        handle=given.get("handle"),
    )


def schema_of(function: Handle) -> dict[str, Any]:
    """JSON Schema of a callable's parameters, from its annotations where they are plain types."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return {"type": "object"}
    hints = _hints_of(_function_of(function))
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        properties[name] = _schema(hints.get(name))
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _hints_of(function: Any) -> dict[str, Any]:
    """The types of a callable's parameters; none where one of them cannot be resolved here."""
    if isinstance(function, type):
        function = function.__init__
    elif not inspect.isroutine(function):  # an object that can be called
        function = type(function).__call__
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - an annotation is any expression, and may fail with anything
        return {}


def _function_of(given: Handle) -> Handle:
    """What is called in the end: `functools.partial` has a name and a docstring of its own."""
    while isinstance(given, functools.partial):
        given = cast("functools.partial[Any]", given).func
    return given


def _schema(kind: Any) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        options = [_schema(part) for part in inner if part is not type(None)]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin is Literal:
        return {"enum": list(inner)}
    name = _TYPES.get(origin or kind)
    if name is None:
        return {}
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        parts = [_schema(part) for part in inner]
        return {"type": name, "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if name == "array" and inner:
        return {"type": name, "items": _schema(inner[0])}
    return {"type": name}
