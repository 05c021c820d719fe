"""YAML text to plain data, with the line of every value.

Owns: the YAML dialect (1.2's booleans, no dates, no repeated keys, no number that is another one
as a text). Never imports a room.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from armory.config.problems import Path, Problem, dotted

_MAX_NODES = 200_000
_DROPPED = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}

_IN_WORDS = (
    (
        "expected <block end>",
        "this line is indented otherwise than those above it; what belongs together begins in the"
        " same column",
    ),
    (
        "expected '<document start>'",
        "this line is indented less than the first; what belongs together begins in the same"
        " column",
    ),
    ("found unexpected end of stream", "the quotes of a text do not end"),
    ("'\\t' that cannot start", "a tab; YAML is indented with spaces"),
    (
        "mapping values are not allowed",
        "a colon that cannot stand here; is the line above indented as it should be, or does a text"
        " need quotes?",
    ),
    (
        "could not find expected ':'",
        "a colon is missing behind the key, or the quotes of a text do not end",
    ),
    (
        "that cannot start any token",
        'a text that begins with this character needs quotes, as in "@scope/package"',
    ),
    ("expected alphabetic or numeric", 'a text that begins with * or & needs quotes, as in "*"'),
    ("found undefined alias", 'a text that begins with * needs quotes, as in "*_read"'),
    ("could not determine a constructor", "a text that begins with ! needs quotes"),
    (
        "expected ',' or",
        "a comma or the closing bracket is missing, or a text between brackets needs quotes, as in"
        ' {Authorization: "Bearer ${TOKEN}"}',
    ),
    ("expected the node content", "a value is missing here, or a bracket is not closed"),
    ("found another document", "'---' begins a second file here; a configuration is one"),
    ("sequence entries are not allowed", "a list of lines with '-' begins in a line of its own"),
)
"""What the parser says of the usual mistakes, and the same for people."""


class _Loader(yaml.SafeLoader):
    """Reads `off` and `2025-06-18` as the texts that they are; only true and false are booleans."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class's own way of declaring them
        first: [pair for pair in pairs if pair[0] not in _DROPPED]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


for _first in "tTfF":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).append(
        (
            "tag:yaml.org,2002:bool",
            re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
        )
    )


def _as_written(construct: Any) -> Any:
    """A number; as a text where it would be another one: `3.10`, `012`, `22:22`.

    Whatever wants a number reads it from the text.
    """

    def number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float | str:
        value = construct(loader, node)
        return value if str(value) == node.value else node.value

    return number


_Loader.add_constructor("tag:yaml.org,2002:int", _as_written(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor(
    "tag:yaml.org,2002:float", _as_written(yaml.SafeLoader.construct_yaml_float)
)


def composed(text: str) -> yaml.Node | None:
    """The nodes of a file, with their places in the text; None for an empty one.

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


class Source:
    """A parsed file.

    Args:
        text: of it.
        node: what `composed` made of the text, where that was asked already; used up.

    Attributes:
        data: the top-level mapping; empty when the file could not be read.
        lines: 1-based line of each path.
        problems: syntax errors and repeated keys.
    """

    def __init__(self, text: str, node: yaml.Node | None = None) -> None:
        self.data: dict[Any, Any] = {}
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._above: set[int] = set()
        try:
            loader = _Loader(text)
        except yaml.YAMLError as error:
            self.problems.append(_syntax(error))
            return
        try:
            if node is None:
                node = loader.get_single_node()
            if node is None:
                return
            self._walk(node, ())
            data = loader.construct_document(node)
        except yaml.YAMLError as error:
            self.problems.append(_syntax(error))
            return
        except (ValueError, RecursionError) as error:
            self.problems.append(Problem("", f"the file cannot be read as YAML: {error}"))
            return
        finally:
            loader.dispose()
        if not isinstance(data, dict):
            self.problems.append(
                Problem("", f"a mapping of blocks is expected, this is {_kind(data)}", 1)
            )
            return
        self.data = data

    def line(self, path: Path) -> int | None:
        """Line of `path`, else of the nearest enclosing value."""
        for length in range(len(path), 0, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return None

    def _walk(self, node: yaml.Node, path: Path) -> None:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise ValueError(f"it has more than {_MAX_NODES} values (aliases count each time)")
        if id(node) in self._above:
            within = "an alias (*name) stands for the block that it is in"
            raise yaml.MarkedYAMLError(problem=within, problem_mark=node.start_mark)
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._above.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for position, entry in enumerate(node.value):
                self._walk(entry, (*path, position))
        elif isinstance(node, yaml.MappingNode):
            self._walk_mapping(node, path)
        self._above.discard(id(node))

    def _walk_mapping(self, node: yaml.MappingNode, path: Path) -> None:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            inner = (*path, key)
            if key in seen and key != "<<":
                self.problems.append(
                    Problem(
                        dotted(inner),
                        f"this key is here twice (first on line {seen[key]}); keep one of them",
                        line,
                    )
                )
            seen.setdefault(key, line)
            self.lines.setdefault(inner, line)
            self._walk(value_node, inner)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "a text" if isinstance(value, str) else "a single value"


def _syntax(error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        message = error.problem or error.context or "unreadable"
        what = next((words for part, words in _IN_WORDS if part in message), message)
        return Problem("", f"broken YAML in column {mark.column + 1}: {what}", mark.line + 1)
    return Problem("", f"broken YAML: {error}")
