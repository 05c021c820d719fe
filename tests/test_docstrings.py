"""What a docstring names is there: `Args` are parameters, `Attributes` are members."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "armory"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
SECTION = re.compile(r"(\s*)(Args|Attributes):\s*")
ENTRY = re.compile(r"\s*(\w+(?:, \w+)*):")


def entries(docstring: str, section: str) -> Iterator[str]:
    """The names that a section of a docstring explains."""
    inside, heading, first = False, 0, 0
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        if (found := SECTION.fullmatch(line)) is not None:
            inside, heading, first = found[2] == section, len(found[1]), 0
        elif inside and line.strip():
            inside = indent > heading
            first = first or indent
            if inside and indent == first and (found := ENTRY.match(line)) is not None:
                yield from found[1].split(", ")


def parameters(function: ast.AST | None) -> set[str]:
    if not isinstance(function, FUNCTIONS):
        return set()
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg for arg in every if arg is not None}


def members(node: ast.ClassDef) -> set[str]:
    """What a class has: its fields, methods and whatever its methods assign."""
    stores = (found for found in ast.walk(node) if isinstance(found, ast.Attribute | ast.Name))
    names = {found.attr if isinstance(found, ast.Attribute) else found.id for found in stores}
    return names | {found.name for found in node.body if isinstance(found, FUNCTIONS)}


def absent(tree: ast.Module, above: dict[str, ast.ClassDef]) -> Iterator[str]:
    """What docstrings name and is not there.

    Args:
        tree: a module.
        above: classes by name, for what is inherited.
    """
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            said = entries(ast.get_docstring(node) or "", "Args")
            yield from (f"{node.name}({name})" for name in said if name not in parameters(node))
        elif isinstance(node, ast.ClassDef):
            docstring, has = ast.get_docstring(node) or "", members(node)
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            while bases:
                if (base := above.get(bases.pop())) is not None:
                    has |= members(base)
                    bases += [one.id for one in base.bases if isinstance(one, ast.Name)]
            said = entries(docstring, "Attributes")
            yield from (f"{node.name}.{name}" for name in said if name not in has)
            makers = {one.name: one for one in node.body if isinstance(one, FUNCTIONS)}
            if (maker := makers.get("__init__")) is not None:
                said = entries(docstring, "Args")
                yield from (f"{node.name}({n})" for n in said if n not in parameters(maker))


def test_what_a_docstring_explains_is_there() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    every = (node for tree in trees.values() for node in ast.walk(tree))
    classes = {node.name: node for node in every if isinstance(node, ast.ClassDef)}
    found = {
        str(path.relative_to(PACKAGE)): names
        for path, tree in trees.items()
        if (names := list(absent(tree, classes)))
    }
    assert found == {}


def test_entries_of_sections() -> None:
    docstring = (
        "A.\n\nArgs:\n    one, two: with\n        a: colon.\n    three: it.\n\nRaises:\n    X: y."
    )
    assert list(entries(docstring, "Args")) == ["one", "two", "three"]
