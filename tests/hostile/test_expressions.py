"""Every regular expression of the package does work in proportion to the text, whatever the text.

Steps are counted over texts made to hurt: each place of the expression is reached, what may stand
there is repeated, and the text ends in a way that makes the match fail. Twice the text may take
twice the steps; an expression that is quadratic takes four times as many.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeGuard

import pytest

ROOT = Path(__file__).parents[2] / "armory"
FLAT = 5
"""Steps for each character below which there is nothing to compare."""
SHORT, LONG = 40, 80
"""How often a text is repeated."""
OPERATORS = {"config/checks/cross.py", "accounts/query_log.py", "runtime/editing/masking.py"}
"""Where expressions of the operator's own configuration are compiled."""
DESCRIPTIONS = {"openapi/keywords.py"}
"""Where those of a configured description are compiled to see whether they can be; none is used."""
CALLERS = {"gateway/queries/filters.py"}
"""Where callers' globs are: few, short, and atomic groups by `fnmatch.translate`."""
METHODS = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}


LARGE = r"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from armory.accounts.query_log import _JWT
from armory.agent.parse import parse_step
from armory.agent.repair import parse_arguments
from armory.agent.synthetic import read_queries
from armory.cli.config.client_files import without_comments
from armory.observability.redaction import redacted
from armory.retrieval.lexical.intents import clauses
from armory.upstreams.oauth.discovery import challenge_of
from armory.protocol import bodies
from armory.protocol.errors import Malformed
million = 1_000_000
bodies.check_depth(b'[' * 200 + b'"' + b'\"' * 2 * million, 256)
try:
    bodies.check_depth(b'[' * 300 + b'"' + b'\"' * 2 * million, 256)
except Malformed:
    print("deep")
assert clauses("a" + " " * million + "b") == []
assert clauses("a" + "	" * million + "and b") == []
challenge_of("Bearer " + "a" * million)
without_comments("{" + '\"' * million + "/*" * million)
redacted("a." * million)
_JWT.sub("", "eyJaaaaaaaa-" * (million // 10))
for text in ("-" * million, "<think>" * million, "Action Input: [" + " " * million + "x"):
    parse_step(text)
parse_arguments("[" + "," * million, lambda _: None)
parse_arguments("query: a" + " " * million + "b", lambda _: None)
parse_arguments("a" + "\n" * million + "b", lambda _: None)
read_queries("<think>" * million)
read_queries("- a" + " " * million)
print("done")
"""


def _methods(tree: ast.Module) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            target = node.value
            if isinstance(target, ast.Name):
                used.setdefault(target.id, set()).add(node.attr)
    return used


def _of_re(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a node is a call like `re.match(...)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "re"
        and node.func.attr in {*METHODS, "compile"}
    )


def expressions() -> dict[str, tuple[re.Pattern[Any], bool]]:
    """Every expression of the package, and whether it is only tried at the beginning of a text."""
    found: dict[str, tuple[re.Pattern[Any], bool]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        place = str(path.relative_to(ROOT))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if place.startswith("testing/") or "import re" not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module("armory." + place.removesuffix(".py").replace("/", "."))
        for name, methods in _methods(tree).items():
            pattern = getattr(module, name, None)
            if isinstance(pattern, re.Pattern):
                found[f"{place}:{name}"] = (pattern, methods <= {"match", "fullmatch"})
        for node in ast.walk(tree):
            if _of_re(node) and isinstance(node.args[0], ast.Constant):
                method = ast.unparse(node.func).removeprefix("re.")
                flags = re.MULTILINE if "re.MULTILINE" in ast.unparse(node) else 0
                if method in METHODS:  # those that are compiled stand in the module
                    pattern = re.compile(str(node.args[0].value), flags)
                    found[f"{place}:{node.lineno}"] = (pattern, method in ("match", "fullmatch"))
    return found


FOUND = expressions()


@pytest.mark.parametrize("name", FOUND)
def test_twice_the_text_takes_at_most_twice_the_steps(name: str, steps_of: Any) -> None:
    pattern, anchored = FOUND[name]
    steps = steps_of(pattern, anchored)
    for begin, pump in steps.attacks():
        long = begin + pump * LONG + "\x00"
        many = steps.over(long)
        if many > FLAT * len(long):
            few = steps.over(begin + pump * SHORT + "\x00")
            assert many <= 2.6 * few, (pattern.pattern, begin, pump, few, many)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r'"(?:[^"\\]|\\.)*"', '"' + '\\"' * LONG),
        (r"<t>.*?</t>", "<t>" * LONG),
        (r"(?:-+ ?)*x", "-" * 16),
        (r"^\s*\s*x", " " * LONG),
    ],
)
def test_the_count_tells_an_expression_that_is_worse(
    pattern: str, text: str, steps_of: Any
) -> None:
    steps = steps_of(re.compile(pattern), False)
    assert steps.over(text) > 2.6 * steps.over(text[: len(text) // 2])


def test_no_expression_is_made_while_a_request_is_answered() -> None:
    made: set[str] = set()
    for path in sorted(ROOT.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if _of_re(node) and not isinstance(node.args[0], ast.Constant):
                        made.add(str(path.relative_to(ROOT)))
    assert made == OPERATORS | DESCRIPTIONS | CALLERS


def test_large_texts_are_looked_through_at_once() -> None:
    """Each text is so long that work that grows with its square would take hours."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split() == ["deep", "done"]
