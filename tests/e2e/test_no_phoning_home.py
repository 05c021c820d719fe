"""Nothing is reported to anybody: neither by Armory nor by what it stands on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EMBED = """
import asyncio
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
asyncio.run(EmbeddedEmbedder().embed_documents(["a text"]))
"""


def quiet(environ: dict[str, str], home: Path) -> dict[str, str]:
    """An environment that says nothing about telemetry, with empty folders for a person."""
    home.mkdir()
    folders = {"HOME": home, "XDG_CACHE_HOME": home / "cache", "XDG_DATA_HOME": home / "data"}
    given = {name: str(folder) for name, folder in folders.items()}
    kept = {name: value for name, value in environ.items() if "TELEMETRY" not in name}
    return {**kept, **given, "PYTHONDONTWRITEBYTECODE": "1"}


def test_embedding_leaves_no_id_of_this_machine(environ: dict[str, str], tmp_path: Path) -> None:
    """onnxruntime writes one where its maker is to be told something."""
    home = tmp_path / "person"
    env = quiet(environ, home)
    subprocess.run([sys.executable, "-c", EMBED], env=env, check=True, timeout=60)
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_the_variables_are_set_before_anything_is_imported_and_a_given_value_stays() -> None:
    show = "import armory, os, sys; print(os.environ['ORT_DISABLE_TELEMETRY'], *sys.modules)"
    for given, expected in (({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")):
        kept = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
        told = subprocess.run(
            [sys.executable, "-c", show],
            env={**kept, **given},
            capture_output=True,
            text=True,
            check=True,
        )
        value, *modules = told.stdout.split()
        assert value == expected
        assert "onnxruntime" not in modules


@pytest.mark.timeout(300)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs network namespaces")
def test_serving_searching_and_stopping_try_no_address(
    environ: dict[str, str], tmp_path: Path, demo_upstreams: dict[str, Any]
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    told = subprocess.run(
        ["unshare", "--net", "--map-root-user", sys.executable, "-m", "tests.e2e.alone", str(file)],
        env=quiet(environ, tmp_path / "person"),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    if told.returncode and "unshare failed" in told.stderr:
        pytest.skip(f"no network namespace can be made here: {told.stderr.strip()}")
    assert told.returncode == 0, told.stderr[-2_000:]
    result = json.loads(told.stdout.splitlines()[-1])
    assert result["unseen"] == [], "the watcher did not see what was sent to be seen"
    assert result["gateway"], "the watcher did not see the search connect to the gateway"
    assert result["others"] == []
    assert "time" in json.dumps(result["found"])
    assert result["code"] == 0
