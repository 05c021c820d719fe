"""The requirements manifest: every behaviour has a proof, every proof exists, no test is stray."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
TESTS = HERE.parent
MANIFEST: list[dict[str, Any]] = yaml.safe_load(
    (HERE / "requirements.yml").read_text(encoding="utf-8")
)
SCENARIO = re.compile(r"conformance: ([a-z0-9-]+)")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in found if node.name.startswith("test_")}


def proofs() -> set[str]:
    return {proof for entry in MANIFEST for proof in entry["shown"]}


def test_every_id_is_unique_and_whole() -> None:
    ids = [entry["id"] for entry in MANIFEST]
    assert len(set(ids)) == len(ids)
    for entry in MANIFEST:
        assert set(entry) == {"id", "spec", "says", "shown"}, entry["id"]
        assert re.match(r"(?:20\d\d-\d\d-\d\d|seps/)", entry["spec"]), entry["id"]
        assert len(entry["says"]) > 20, entry["id"]


def test_every_id_is_shown_by_a_test_that_exists() -> None:
    known: dict[str, set[str]] = {}
    for entry in MANIFEST:
        assert entry["shown"], f"{entry['id']} is shown by nothing"
        for proof in entry["shown"]:
            if SCENARIO.fullmatch(proof):
                continue
            file, _, function = proof.partition("::")
            known.setdefault(file, functions(TESTS / file))
            assert function in known[file], f"{entry['id']}: there is no {proof}"


def test_every_test_of_the_protocol_shows_something() -> None:
    shown = proofs()
    stray = [
        f"{path.relative_to(TESTS).as_posix()}::{function}"
        for path in sorted(HERE.rglob("test_*.py"))
        for function in sorted(functions(path))
        if path != Path(__file__)
    ]
    missing = [test for test in stray if test not in shown]
    assert not missing, f"name them in requirements.yml: {missing}"
