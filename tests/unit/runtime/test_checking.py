"""What building would refuse shows beside what the file itself has wrong."""

from __future__ import annotations

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
