"""The house stays as it is drawn: short files that say what they own, imports that go down only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 400
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 7
MOST_FILES = 16
CODE = ("armory", "benchmarks", "training")
FOLDERS = ("armory", "tests", "benchmarks", "training", "examples", ".ci")
FOREIGN = re.compile(
    r"(?<![\w/.])/(?:work|opt(?!/homebrew))/|(?:\.\./)+shared\b|(?<!\w)issue #?\d+|\bhelpers?' "
)
FULL: dict[str, int] = {}
"""Folders with more files than that: none."""
LARGE = {
    "armory.cli.accounts.packs.create": "click gives a command each of its options",
    "armory.cli.catalog.search.search": "click gives a command each of its options",
    "armory.cli.config.add.add": "click gives a command each of its options",
    "armory.cli.config.export.export": "click gives a command each of its options",
    "armory.cli.gateway.audit.audit": "click gives a command each of its options",
    "armory.cli.quality.eval.eval_command": "click gives a command each of its options",
    "armory.cli.quality.report.report": "click gives a command each of its options",
    "armory.gateway.metatools.definitions.search_definition": "one JSON schema",
    "armory.retrieval.embedders.openai.OpenAIEmbedder.__init__": "programs construct it by keyword",
    "armory.runtime.running.Runtime.__init__": "every part of a gateway is made here, in order",
    "armory.wire.http.edge.HttpEdge.__init__": "every part of the edge is made here, in order",
    "armory.testing.service.running_service": "a test replaces any part by keyword",
}
"""Functions that are longer or take more than others may, and why."""
TEXTS = (".py", ".md", ".yaml", ".toml", ".json", ".sh")


def python_files() -> list[Path]:
    found = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]
    assert len(found) > 100
    return found


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_is_longer_than_it_can_be_read() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert long == {}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules() -> dict[str, Path]:
    """The files of the package, the benchmarks and the training by module name."""
    named: dict[str, Path] = {}
    for path in python_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] in CODE:
            named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported(module: str, path: Path) -> Iterator[str]:
    """What a file imports of these, for types and inside functions included."""
    known = modules()
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in inner]
        else:
            continue
        yield from (name for name in names if name in known and name != module)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every group of modules that reach each other (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set[str](), "e": {"a"}}
    assert circles(graph) == [["a", "b", "c"]]


def test_no_import_goes_in_a_circle() -> None:
    graph = {module: set(imported(module, path)) for module, path in modules().items()}
    assert sum(len(others) for others in graph.values()) > 1_000
    assert circles(graph) == []


def test_no_folder_holds_too_much() -> None:
    files = Counter(path.parent for path in (ROOT / "armory").rglob("*.py"))
    assert {
        folder.relative_to(ROOT).as_posix(): count
        for folder, count in files.items()
        if count > MOST_FILES
    } == FULL


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(body: list[ast.stmt], name: str) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef | Function):
            inner = f"{name}.{node.name}"
            if isinstance(node, Function):
                yield inner, node
            yield from functions(node.body, inner)


def parameters(function: Function) -> int:
    taken = function.args
    names = [given.arg for given in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    own = names[:1] in (["self"], ["cls"])
    return len(names) - own + (taken.vararg is not None) + (taken.kwarg is not None)


def code_lines(function: Function) -> int:
    """Its lines without the docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None or first.end_lineno is None:
        return lines
    return lines - (first.end_lineno - first.lineno + 1)


def test_functions_fit_in_a_head() -> None:
    large = {
        name
        for module, path in modules().items()
        for name, function in functions(parsed(path).body, module)
        if code_lines(function) > LONGEST_FUNCTION or parameters(function) > MOST_PARAMETERS
    }
    assert large == LARGE.keys()


def test_tasks_are_started_in_one_place() -> None:
    """Task groups and `armory.tasks` watch what they start; a bare task fails in silence."""
    bare = [
        f"{module}:{node.lineno}"
        for module, path in modules().items()
        if module.startswith("armory.") and module != "armory.tasks"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("create_task", "ensure_future")
        if not (isinstance(node.value, ast.Name) and node.value.id == "group")
    ]
    assert bare == []


def test_every_file_of_the_package_says_what_it_owns() -> None:
    silent: list[str] = []
    for path in sorted((ROOT / "armory").rglob("*.py")):
        if "migrations" in path.parts:
            continue
        said = ast.get_docstring(parsed(path)) or ""
        plain = path.name == "__init__.py"
        if not said or (not plain and "Owns:" not in said and "Owned" not in said):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_nothing_names_a_place_outside_the_tree() -> None:
    """Docs and comments stand alone: no paths or names of the machine that they were written on."""
    named = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked()
        if path.suffix in TEXTS and path.is_file() and path != Path(__file__)
        if (match := FOREIGN.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert named == []


def named_in_architecture() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"`((?:[a-z0-9_]+/)*[a-z0-9_]+(?:\.py|/))`", text)


def test_the_architecture_page_names_what_is_there() -> None:
    named = named_in_architecture()
    assert len(named) > 80
    rooms = ("armory", "armory/retrieval", ".")
    gone = {name for name in named if not any((ROOT / room / name).exists() for room in rooms)}
    assert gone == set()


def test_the_architecture_page_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    floors = text[text.index("## Floors") : text.index("## Glossary")]
    rooms = {path.name for path in (ROOT / "armory").iterdir() if (path / "__init__.py").exists()}
    told = {*re.findall(r"^([a-z0-9]+) {2,}", floors, re.M), *re.findall(r"`([a-z]+)`", floors)}
    assert rooms - told == set()


def test_what_is_called_by_name_there_is_there() -> None:
    """`Pool.request(...)` beside a file: the class and its method are in it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"`([a-z0-9_/]+\.py)`: (`[^|]+)\|", text)
    assert len(rows) > 8
    for file, said in rows:
        code = (ROOT / "armory" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`([A-Z]\w+)(?:\.(\w+))?", said):
            for part in filter(None, name):
                assert re.search(rf"\b(?:class|def) {part}\b|^{part} = ", code, re.M), (file, part)


def test_a_walk_enters_at_most_eight_files_each_once() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = re.findall(r"(?:^\d\. .*\n(?: {3}.*\n)*)+", text[text.index("## Two walks") :], re.M)
    assert len(walks) == 2
    for walk in walks:
        steps = re.findall(r"^\d\. `([^`]+)`", walk, re.M)
        assert 5 < len(steps) <= 8
        assert len(set(steps)) == len(steps)


def test_what_is_for_a_few_rooms_is_forbidden_to_every_other() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rooms = {path.stem for path in (ROOT / "armory").iterdir() if path.suffix == ".py"}
    rooms |= {path.parent.name for path in (ROOT / "armory").glob("*/__init__.py")}
    allowed = {
        contract["forbidden_modules"][0]: rooms
        - {"__init__", "__main__"}
        - {module.removeprefix("armory.") for module in contract["source_modules"]}
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "forbidden" and len(contract["source_modules"]) > 2
    }
    assert allowed == {
        "armory.config": {"cli", "config", "runtime", "testing"},
        "mcp": {"demo", "testing"},
    }


def test_imports_go_down_only() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("package", "homes"),
    [
        (
            "onnxruntime",
            {"armory/retrieval/embedders/embedded.py", "armory/retrieval/indexes/quantized.py"},
        ),
        ("qdrant_client", {"armory/retrieval/indexes"}),
        ("faiss", {"armory/retrieval/indexes/faiss_store.py"}),
        (
            "fastembed",
            {
                "armory/retrieval/embedders/fastembed.py",
                "armory/retrieval/ranking/cross_encoder.py",
            },
        ),
        ("redis", {"armory/storage"}),
        ("asyncpg", {"armory/storage"}),
        ("openai", {"armory/retrieval/embedders", "armory/llm"}),
        ("aiohttp.web", {"armory/wire", "armory/web", "armory/testing"}),
        ("mcp", {"armory/wire", "armory/upstreams", "armory/testing", "armory/demo"}),
    ],
)
def test_third_parties_stay_behind_their_walls(package: str, homes: set[str]) -> None:
    strays: list[str] = []
    for path in sorted((ROOT / "armory").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if any(name == home or name.startswith(f"{home}/") for home in homes):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            strays += [
                f"{name} imports {module}"
                for module in modules
                if module == package or module.startswith(f"{package}.")
            ]
    assert strays == []


def test_the_log_names_upstreams_under_one_key() -> None:
    """Whoever looks for `upstream=docs` finds all that was said of it."""
    others = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "armory").rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) in ("log", "_log")
        and any(keyword.arg == "server" for keyword in node.keywords)
    ]
    assert others == []
