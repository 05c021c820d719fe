"""Reads YAML as JSON values.

Owns: which plain scalars have a type (those of YAML 1.2: `no`, `on` and dates are texts), and the
limits on reading. Does no I/O.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar, cast

import yaml

from armory.openapi.references import BadDescription

MAX_LEVELS = 200
MAX_NODES = 600_000
MAX_BITS = 1_000
MULTIPLIED = "its YAML aliases multiply without end"
TOO_DEEP = f"it is nested deeper than {MAX_LEVELS} levels"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789"),
    ("merge", r"<<", "<"),
)


class _Loader(_Base):
    """Like `CSafeLoader`, but scalars that are not JSON values stay texts."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self._members = 0

    def flatten_mapping(self, node: Any) -> None:
        """Like the base class, with a limit on what `<<` merges in."""
        super().flatten_mapping(node)
        self._members += len(node.value)
        if self._members > MAX_NODES:
            raise BadDescription(MULTIPLIED)


for _kind, _pattern, _first in _WORDS:
    _tag = f"tag:yaml.org,2002:{_kind}"
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def read_yaml(text: bytes) -> Any:
    """Parse a text.

    Raises:
        BadDescription: it is nested too deeply, or its aliases have no end.
        yaml.YAMLError: it is no YAML; `ValueError`: nor has it values that can be read.
    """
    try:
        _check_levels(text)
    except yaml.YAMLError as error:
        if "nesting depth" in str(error):  # libyaml's own bound, since its 0.2.6 (a thousand)
            raise BadDescription(TOO_DEEP) from None
        raise
    try:
        return _plain(yaml.load(text, _Loader), [0])
    except RecursionError:  # an alias stands within what it means
        raise BadDescription(MULTIPLIED) from None


def _check_levels(text: bytes) -> None:
    """Reject deep nesting: libyaml would crash the process while it composes the document."""
    level = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
            if level > MAX_LEVELS:
                raise BadDescription(TOO_DEEP)
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1


def _plain(node: Any, seen: list[int]) -> Any:
    """Convert keys to text; reject aliases that multiply."""
    seen[0] += 1
    if seen[0] > MAX_NODES:
        raise BadDescription(MULTIPLIED)
    if isinstance(node, dict):
        items = cast("dict[Any, Any]", node).items()
        return {_key(key): _plain(child, seen) for key, child in items}
    if isinstance(node, list):
        return [_plain(child, seen) for child in cast("list[Any]", node)]
    if isinstance(node, float) and not math.isfinite(node):
        return str(node)
    if isinstance(node, int) and node.bit_length() > MAX_BITS:
        raise BadDescription(f"it has a number of {node.bit_length():,} bits")
    return node if node is None or isinstance(node, str | int | float | bool) else str(node)


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
