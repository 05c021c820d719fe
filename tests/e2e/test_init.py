"""`armory init`: a file that holds, written whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
pytestmark = pytest.mark.timeout(400)


def test_init_writes_a_file_that_holds_and_never_overwrites(armory: Run, tmp_path: Path) -> None:
    assert armory("init").returncode == 0
    text = (tmp_path / "armory.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=armory.schema.json\n")
    assert json.loads((tmp_path / "armory.schema.json").read_text())["title"] == "armory.yaml"
    assert armory("validate").returncode == 0
    again = armory("init")
    assert again.returncode == 2
    assert "--force" in again.stderr
    (tmp_path / "armory.yaml").write_text("")
    assert armory("init", "--force", "--json").returncode == 0
    assert (tmp_path / "armory.yaml").read_text() == text


@pytest.mark.parametrize("there", [None, "upstreams: {}\n"])
def test_init_writes_all_or_nothing(tmp_path: Path, there: str | None) -> None:
    if there is not None:
        (tmp_path / "armory.yaml").write_text(there)
    command = f"ulimit -f 4; exec {sys.executable} -B -m armory.cli.main init --force"  # 4 KiB
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "armory.schema.json cannot be written: File too large" in done.stderr
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == ({} if there is None else {"armory.yaml": there})


def test_init_names_a_file_as_a_shell_takes_it(armory: Run, tmp_path: Path) -> None:
    (tmp_path / "my files").mkdir()
    done = armory("init", "my files/armory.yaml")
    assert "armory serve --config 'my files/armory.yaml'" in done.stdout
