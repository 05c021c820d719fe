"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is an empty one, and no configuration is named elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARMORY_CONFIG", raising=False)
