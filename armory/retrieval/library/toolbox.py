"""Tools as `ToolMemory` holds them: made from functions or JSON, converted to records and JSON.

Owns: `Tool`, `SelectedTool`, and their JSON. Never imports the retriever.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, TypedDict, cast

from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import InvalidRequest
from armory.retrieval.library.forms import ToolLike, as_mcp, of_object
from armory.retrieval.library.signatures import Handle, description_of, name_of, schema_of

_MEMBERS = (
    "identifier", "name", "title", "description", "tags", "inputSchema", "outputSchema", "examples",
    "metadata", "private", "handle", "annotations", "icons", "execution", "_meta",
)  # fmt: skip
"""Members that the JSON of a tool may have."""
_OWN = (
    ("inputSchema", "input_schema"), ("outputSchema", "output_schema"), ("metadata", "metadata"),
    ("annotations", "annotations"), ("execution", "execution"), ("_meta", "meta"),
)  # fmt: skip
"""Members that are objects, and the attributes that hold copies of them."""


def shown(value: object) -> str:
    """A value as a message shows it, however long it is."""
    return reprlib.repr(value)


def copied(value: Any) -> Any:
    """JSON that nobody else can change; of what is none, as a client in metadata, the same."""
    if isinstance(value, Mapping):
        return {name: copied(inner) for name, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list):
        return [copied(inner) for inner in cast("list[Any]", value)]
    return value


class SelectedTool(TypedDict):
    """A tool that was found: a dict with the tool's members, its handle, and its scores.

    Attributes:
        handle: what runs the tool, or None.
        _score: cosine of query and tool in [-1, 1]; 0 without an embedder.
        _relevance: calibrated score in [0, 1]; it means the same for every embedder and catalog.
        _reason: one sentence about why it was found.
    """

    identifier: str
    name: str
    title: str
    description: str
    tags: list[str]
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] | None
    metadata: dict[str, Any]
    annotations: dict[str, Any]
    icons: list[dict[str, Any]]
    execution: dict[str, Any]
    _meta: dict[str, Any]
    handle: Handle | None
    _score: float
    _relevance: float
    _reason: str


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; immutable.

    Attributes:
        identifier: unique in a memory.
        name: the name that models see.
        description: what it does.
        tags: free words; searched, and usable in `tag_boosts`.
        input_schema: JSON Schema of the arguments.
        output_schema: JSON Schema of the result, or None.
        examples: queries that need this tool; each is embedded, the best match counts.
        metadata: values to filter by. `private: True` hides the tool unless `include_private`.
        handle: what runs it, such as a function; never saved.
        title: the name that people see, or ""; searched.
        annotations: MCP's hints about its behaviour, such as `readOnlyHint`.
        icons: MCP's icons.
        execution: MCP's way of running it, such as `taskSupport`.
        meta: MCP's `_meta`; its `anthropic/searchHint` is searched.

    Raises:
        InvalidRequest: an attribute has the wrong type.
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
    title: str = ""
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    icons: tuple[Mapping[str, Any], ...] = ()
    execution: Mapping[str, Any] = field(default_factory=dict[str, Any])
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name, least in (("identifier", 1), ("name", 1), ("description", 0), ("title", 0)):
            text: Any = getattr(self, name)
            if not isinstance(text, str) or len(text) < least:
                self._refuse(name, "a text that is not empty" if least else "a text")
        for name, kind, expected in (
            ("tags", str, "a list of texts"), ("examples", str, "a list of texts"),
            ("icons", Mapping, "a list of objects"),
        ):  # fmt: skip
            given: Any = getattr(self, name)
            if not isinstance(given, list | tuple) or not all(
                isinstance(one, kind) for one in cast("list[Any]", given)
            ):
                self._refuse(name, expected)
            object.__setattr__(self, name, tuple(cast("list[Any]", given)))
        for name in ("input_schema", "metadata", "annotations", "execution", "meta"):
            if not isinstance(getattr(self, name), Mapping):
                self._refuse(name, "an object")
        if not isinstance(self.output_schema, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance] # as above
            self._refuse("output_schema", "an object, or None")
        if self.handle is not None and not callable(self.handle):
            self._refuse("handle", "something that can be called, or None")
        self._keep_own()

    def _keep_own(self) -> None:
        """What the caller changes afterwards changes nothing here."""
        for _, name in _OWN:
            self._keep(name, copied)
        self._keep("icons", lambda given: tuple(map(copied, given)))

    def _keep(self, name: str, copy: Callable[[Any], Any]) -> None:
        try:
            object.__setattr__(self, name, copy(getattr(self, name)))
        except RecursionError:
            self._refuse(name, "an object that is nested less deeply")

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise InvalidRequest(
            f"tool {shown(self.identifier)}: {name} is {shown(getattr(self, name))}, expected "
            f"{expected}",
            parameter=name,
        )

    @property
    def private(self) -> bool:
        """Whether the tool is hidden unless asked for."""
        return bool(self.metadata.get("private"))

    @classmethod
    def of(cls, given: AnyTool) -> Tool:
        """A tool from itself, a callable (name, docstring, signature), a mapping of MCP's, OpenAI's
        or Anthropic's form, (identifier, mapping), or a tool of LangChain, LlamaIndex, FastMCP or
        MCP's SDK.

        Raises:
            InvalidRequest: none of these, or a mapping or callable without a name.
        """
        if isinstance(given, Tool):
            return given
        if isinstance(given, Mapping):
            return tool_of_json(as_mcp(given))
        if isinstance(given, tuple):
            return _tool_of_pair(given)
        definition = of_object(given)
        if definition is not None:
            return tool_of_json(definition)
        if not callable(given):
            several = isinstance(given, Iterable) and not isinstance(given, str | bytes)
            raise InvalidRequest(
                f"{shown(given)} is no tool: a Tool, a callable or a mapping is needed"
                + ("; of several, each is an argument of its own: add(*tools)" if several else "")
            )
        name = name_of(given)
        if name == "<lambda>":
            raise InvalidRequest(
                f"{shown(given)} has no name that a model could call; write it as a `def`, or give "
                "Tool(identifier, name, description, handle=...)"
            )
        return cls(
            identifier=name,
            name=name,
            description=description_of(given),
            input_schema=schema_of(given),
            handle=given,
        )

    def record(self) -> ToolRecord:
        """As retrieval sees it.

        Raises:
            InvalidRequest: a part of its definition is no JSON.
        """
        definition: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": dict(self.input_schema),
        }
        if self.title:
            definition["title"] = self.title
        if self.output_schema is not None:
            definition["outputSchema"] = dict(self.output_schema)
        if self.examples:
            definition["examples"] = list(self.examples)
        definition |= self._mcp()
        try:
            mark = fingerprint(definition)
        except (TypeError, ValueError, RecursionError) as error:
            attribute, member, why = _no_json(definition, error)
            raise InvalidRequest(
                f"tool {self.identifier!r}: its {member} is no JSON: {why}", parameter=attribute
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
            "title": self.title,
            "description": self.description,
            "tags": list(self.tags),
            "inputSchema": dict(self.input_schema),
            "outputSchema": None if self.output_schema is None else dict(self.output_schema),
            "examples": list(self.examples),
            "metadata": dict(self.metadata),
            **self._mcp(),
        }

    def _mcp(self) -> dict[str, Any]:
        """What MCP's JSON says beside that: the members that it has."""
        parts = {
            "annotations": dict(self.annotations),
            "icons": list(self.icons),
            "execution": dict(self.execution),
            "_meta": dict(self.meta),
        }
        return {member: value for member, value in parts.items() if value}


AnyTool = Tool | Handle | Mapping[str, Any] | tuple[str, Mapping[str, Any]] | ToolLike
"""What a memory takes for a tool, see `Tool.of`."""
ATTRIBUTES = tuple(one.name for one in fields(Tool) if one.name != "identifier")
"""Attributes that `update` accepts."""


def _tool_of_pair(given: tuple[Any, ...]) -> Tool:
    """A tool from (identifier, its JSON)."""
    if len(given) != 2 or not isinstance(given[0], str) or not isinstance(given[1], Mapping):
        raise InvalidRequest("a tuple that stands for a tool is (identifier, mapping)")
    identifier, definition = given[0], as_mcp(cast("Mapping[str, Any]", given[1]))
    return tool_of_json({"name": identifier, **definition, "identifier": identifier})


def tool_of_json(given: Mapping[str, Any]) -> Tool:
    """A tool from JSON as `Tool.to_json` writes it, or from an MCP tool definition.

    Raises:
        InvalidRequest: no name, or a part of the wrong type.
    """
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"a tool needs a name, got {name!r}", parameter="name")
    selected = SelectedTool.__annotations__  # one that was selected is a tool of another memory
    unknown = [key for key in given if key not in _MEMBERS and key not in selected]
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
        *((member, Mapping, "an object") for member, _ in _OWN),
        ("tags", (list, tuple), "a list of texts"), ("examples", (list, tuple), "a list of texts"),
        ("icons", (list, tuple), "a list of objects"),
        *((member, str, "a text") for member in ("identifier", "description", "title")),
    ):  # fmt: skip
        value = given.get(key)
        if value is not None and not isinstance(value, kind):
            raise InvalidRequest(
                f"tool {name!r}: {key} is {shown(value)}, expected {expected}", parameter=key
            )
        parts[key] = value or ()
    hinted = dict(parts["annotations"]).get("title")
    return Tool(
        identifier=given.get("identifier") or name,
        name=name,
        description=given.get("description") or "",
        tags=tuple(parts["tags"]),
        input_schema=dict(parts["inputSchema"]),
        output_schema=given.get("outputSchema"),
        examples=tuple(parts["examples"]),
        metadata={**dict(parts["metadata"]), **({} if private is None else {"private": private})},
        handle=given.get("handle"),
        title=given.get("title") or (hinted if isinstance(hinted, str) else ""),
        annotations=dict(parts["annotations"]),
        icons=tuple(parts["icons"]),
        execution=dict(parts["execution"]),
        meta=dict(parts["_meta"]),
    )


def _no_json(definition: Mapping[str, Any], error: Exception) -> tuple[str, str, Exception]:
    """The attribute and the member of a definition that is no JSON, and why."""
    attributes = dict(_OWN)
    for member, value in definition.items():
        try:
            fingerprint({member: value})
        except (TypeError, ValueError, RecursionError) as why:
            return attributes.get(member, member), member, why
    return "input_schema", "definition", error
