"""Codes, `_meta` keys, revisions and header names stand in `armory/protocol` and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import armory
from armory.protocol import codes, headers, meta, versions

PACKAGE = Path(armory.__file__).parent
# Scripted peers spell what they send: a peer that read the number from the gateway's own table
# would agree with any number that stands there.
APART = ("protocol", "testing")
CODE = re.compile(rb"-32\d{3}\b")


def texts(module: ModuleType) -> set[str]:
    return {value for name, value in vars(module).items() if name.isupper() and type(value) is str}


NUMBERS = {
    abs(value) for name, value in vars(codes).items() if name.isupper() and type(value) is int
}
WORDS = {text.lower() for text in texts(meta) | texts(headers)} | set(versions.ALL_VERSIONS)
PARTS = tuple(text for text in texts(meta) | texts(headers) if text.endswith(("/", "-")))


def strays(tree: ast.AST) -> Iterator[object]:
    """Literals that repeat a table; what documents something may."""
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in documentation:
            continue
        value = node.value
        if isinstance(value, bytes):
            text = value.decode("latin-1").lower()
            if CODE.search(value) or text in WORDS or any(f'"{word}"' in text for word in WORDS):
                yield value
        elif isinstance(value, str):
            if value.lower() in WORDS or value.startswith(PARTS):
                yield value
        elif type(value) is int and value in NUMBERS:
            yield value


def test_the_tables_stand_once() -> None:
    repeated = {
        path.relative_to(PACKAGE).as_posix(): found
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in APART
        if (found := list(strays(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert repeated == {}, "import them from armory.protocol"


@pytest.mark.parametrize(
    "line",
    [
        "code == -32602",
        "code in (1001, 1002)",
        'b"-32020" in error',
        'meta["io.modelcontextprotocol/logLevel"]',
        'meta[f"dev.armory/{name}"]',
        'params["progressToken"]',
        "part = b',\"progressToken\":'",
        'version >= "2025-06-18"',
        'request.headers.get("mcp-session-id")',
        'f"Mcp-Param-{name}"',
    ],
)
def test_a_repeated_entry_is_found(line: str) -> None:
    assert list(strays(ast.parse(line)))


def test_what_is_said_about_them_is_no_repetition() -> None:
    assert not list(strays(ast.parse('def f():\n    """Raises -32602 since 2025-06-18."""')))
    assert not list(strays(ast.parse('"""2025-06-18"""\nwhat = "as of 2025-06-18"')))
