"""The house stays as it is drawn: short files that say what they own, imports that go down only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 400
FOLDERS = ("armory", "tests", "benchmarks", "training", "examples", ".ci")
FOREIGN = re.compile(
    r"(?<![\w/.])/(?:work|opt(?!/homebrew))/|(?:\.\./)+shared\b|(?<!\w)issue #?\d+|\bhelpers?' "
)
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


def test_every_file_of_the_package_says_what_it_owns() -> None:
    silent: list[str] = []
    for path in sorted((ROOT / "armory").rglob("*.py")):
        if "migrations" in path.parts:
            continue
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
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
            {"armory/retrieval/embedders/embedded.py", "armory/retrieval/indexes/rounded.py"},
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
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
