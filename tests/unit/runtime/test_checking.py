"""What building would refuse shows beside what the file itself has wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from armory.config import ConfigProblems
from armory.runtime.checking import checked


def problems(tmp_path: Path, text: str) -> dict[str, int | None]:
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    with pytest.raises(ConfigProblems) as caught:
        checked(file)
    return {problem.path: problem.line for problem in caught.value.problems}


def test_a_wrong_type_hides_no_upstream_that_cannot_be_built(tmp_path: Path) -> None:
    text = """
server: {port: x}
upstreams:
  both: {command: x, url: "https://h.example/mcp"}
  neither: {cwd: /}
sets: {a: {servers: [noone]}}
mcpServers:
  My Files: {}
"""
    assert problems(tmp_path, text) == {
        "server.port": 2,
        "upstreams.both": 4,
        "upstreams.neither": 5,
        "sets.a.servers[0]": 6,
        "mcpServers.My Files": 8,
    }


def test_what_was_taken_out_is_not_missed(tmp_path: Path) -> None:
    text = """
server: {host: 0.0.0.0}
upstreams:
  docs: {url: 3}
security: {tokens: 3}
"""
    assert problems(tmp_path, text) == {"upstreams.docs.url": 4, "security.tokens": 5}


def test_a_short_token_is_named_with_its_line(tmp_path: Path) -> None:
    text = "security:\n  tokens:\n    ann: {token: short}\n"
    assert problems(tmp_path, text) == {"security.tokens.ann.token": 3}


@pytest.mark.parametrize(
    ("text", "module", "path", "line"),
    [
        ("tool_rag:\n  index: faiss\n", "faiss", "tool_rag.index", 2),
        ("tool_rag: {embedding_model: all-MiniLM-L6-v2}\n", "fastembed",
         "tool_rag.embedding_model", 1),
        ("tool_rag: {rerank: Xenova/ms-marco-MiniLM-L-6-v2}\n", "fastembed", "tool_rag.rerank", 1),
        ("storage: {redis: redis://127.0.0.1}\n", "redis", "storage.redis", 1),
        ("storage: {url: postgresql://127.0.0.1/a}\n", "asyncpg", "storage.url", 1),
    ],
)  # fmt: skip
def test_an_extra_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, module: str, path: str, line: int
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    checked(file)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigProblems, match="pip install"):
        checked(file)
    assert problems(tmp_path, text) == {path: line}


def test_an_extra_is_not_missed_where_retrieval_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    file = tmp_path / "armory.yaml"
    file.write_text("tool_rag: {enabled: false, index: faiss}\n")
    checked(file)


def test_weights_that_do_not_add_up_show_without_serving(tmp_path: Path) -> None:
    text = "tool_rag:\n  multi_factor:\n    weights: {similarity: 0.9}\n"
    assert problems(tmp_path, text) == {"tool_rag.multi_factor.weights": 3}
