"""The file of vectors is for the gateway's user alone, as everything in its own folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.retrieval import open_retriever


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_it_is_private_unless_it_is_kept_elsewhere(
    tmp_path: Path, there: bool, shared: bool
) -> None:
    folder = tmp_path / ("shared" if shared else "home/cache")
    file = folder / "vectors.db"
    if there:
        folder.mkdir(parents=True)
        file.touch()
        file.chmod(0o644)
    text = f"tool_rag: {{embedding_model: none}}\nstorage: {{cache_dir: '{folder}'}}\n"
    loaded = load_text(text, environ={"ARMORY_HOME": str(tmp_path / "home")})
    assert open_retriever(loaded) is not None
    if not shared:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    elif there:
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
