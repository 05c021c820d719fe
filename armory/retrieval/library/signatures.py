"""Derives a tool definition from a callable: name, description, JSON Schema of its arguments.

Owns: reading signatures, annotations and docstrings. Never imports the tools that are made of it.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

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
_MODEL = "model_json_schema"
"""The method by which a pydantic model is recognised; its fields are the arguments."""
_DEFS = "$defs"


def name_of(given: Handle) -> str:
    """What a callable is called."""
    function = function_of(given)
    return str(getattr(function, "__name__", type(function).__name__))


def description_of(given: Handle) -> str:
    """Its docstring. A model of pydantic without one would tell what such models are."""
    function = function_of(given)
    own = hasattr(function, _MODEL) and isinstance(function, type)
    return inspect.cleandoc(function.__doc__ or "") if own else inspect.getdoc(function) or ""


def function_of(given: Handle) -> Handle:
    """What is called in the end: `functools.partial` has a name and a docstring of its own."""
    while isinstance(given, functools.partial):
        given = cast("functools.partial[Any]", given).func
    return given


def schema_of(function: Handle) -> dict[str, Any]:
    """JSON Schema of a callable's parameters, as far as their annotations can be read."""
    if isinstance(function, type) and hasattr(function, _MODEL):
        return cast("Any", function).model_json_schema()
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return {"type": "object"}
    names = _names_of(function_of(function))
    properties: dict[str, Any] = {}
    required: list[str] = []
    schemas = _Schemas()
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        properties[name] = found = schemas.of(_resolved(parameter.annotation, names))
        if parameter.default is parameter.empty:
            required.append(name)
        elif _is_plain(parameter.default):
            found["default"] = parameter.default
    whole = {"type": "object", "properties": properties, "required": required}
    return {**whole, _DEFS: schemas.shared} if schemas.shared else whole


def _names_of(function: Any) -> dict[str, Any]:
    """What the annotations of a callable may name."""
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = getattr(function, "__wrapped__", type(function).__call__)
    function = inspect.unwrap(function)
    if isinstance(function, type):
        return vars(sys.modules.get(function.__module__, typing))
    return getattr(function, "__globals__", {})


def _resolved(annotation: Any, names: Mapping[str, Any]) -> Any:
    """The type that an annotation stands for; Any where there is none, or it says none here."""
    if annotation is inspect.Parameter.empty:
        return Any
    holder: Any = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, dict(names), include_extras=True)["it"]
    except Exception:  # noqa: BLE001 - an annotation is any expression, and may fail with anything
        return Any


def _is_plain(value: Any) -> bool:
    """Whether a default says something in JSON; None says only that it may be left out."""
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) in (str, int, bool)


def _without_none(kind: Any) -> Any:
    """The type without None, which a caller says by leaving the argument out."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    inner = tuple(part for part in get_args(kind) if part is not type(None))
    return Union[inner]  # noqa: UP007 - of parts that are known only here


class _Schemas:
    """Reads types.

    Attributes:
        shared: definitions that the schemas refer to.
    """

    def __init__(self) -> None:
        self.shared: dict[str, Any] = {}
        self._within: list[Any] = []

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a parameter or member; {} of a type that has none."""
        description = ""
        if get_origin(kind) is Annotated:
            inner, *extras = get_args(kind)
            description = next((one for one in extras if isinstance(one, str)), "")
            if all(isinstance(one, str) for one in extras):
                kind = inner
        kind = _without_none(kind)
        found = self._simple(kind)
        if found is None:
            found = self._modelled(kind)
        return {**found, "description": description} if description else found

    def _simple(self, kind: Any) -> dict[str, Any] | None:
        """The schema of a type made of Python's own; None: it is made of others."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind in (Any, object):
            return {}
        if is_typeddict(kind):
            return self._keyed(kind)
        if origin is Literal:
            return _one_of(inner)
        name = _TYPES.get(origin or kind)
        union = origin in (Union, types.UnionType)
        if name is None and not union:
            return None
        arguments = [part for part in inner if part is not Ellipsis and part is not type(None)]
        parts = [self._simple(part) for part in arguments]
        if None in parts:
            return None
        if union:
            return parts[0] if len(parts) == 1 else {"anyOf": parts}
        if origin is tuple and inner and inner[-1] is not Ellipsis:
            count = len(parts)
            return {"type": name, "prefixItems": parts, "minItems": count, "maxItems": count}
        if name == "array" and parts:
            return {"type": name, "items": parts[0]}
        return {"type": name}

    def _keyed(self, kind: Any) -> dict[str, Any]:
        """The schema of a `TypedDict`; pydantic takes none of `typing` before Python 3.12."""
        if kind in self._within:
            return {"type": "object"}
        self._within.append(kind)
        try:
            hints = get_type_hints(kind, include_extras=True)
        except Exception:  # noqa: BLE001 - as for annotations
            hints = {}
        properties: dict[str, Any] = {}
        required: list[str] = []
        for name, hint in hints.items():
            needed = name in kind.__required_keys__
            if get_origin(hint) in (Required, NotRequired):
                needed = get_origin(hint) is Required  # of texts the keys above tell nothing
                hint = get_args(hint)[0]
            properties[name] = self.of(hint)
            required += [name] if needed else []
        self._within.pop()
        return {"type": "object", "properties": properties, "required": required}

    def _modelled(self, kind: Any) -> dict[str, Any]:
        """The schema of a model, dataclass, enum, date and the like."""
        from pydantic import TypeAdapter  # loaded only where there is such a type

        try:
            found = TypeAdapter[Any](kind).json_schema()
        except Exception:  # noqa: BLE001 - pydantic runs hooks of the type
            return {}
        defined = found.pop(_DEFS, {})
        if any(self.shared.get(name, one) != one for name, one in defined.items()):
            return {}  # another type of the same name
        self.shared.update(defined)
        return found


def _one_of(values: tuple[Any, ...]) -> dict[str, Any] | None:
    """The schema of a literal, with its type, on which some models' APIs insist."""
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, bool, type(None)}:
        return None
    name = _TYPES.get(next(iter(kinds))) if len(kinds) == 1 else None
    return {"enum": list(values)} if name is None else {"type": name, "enum": list(values)}
