"""Where the programs are that `prepare.py` builds, or the skip that says why they are not there.

Owns: the words of that skip, which `tests/conftest.py` allows in CI.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def built(language: str, program: str) -> Path:
    """One program in Go, Rust or Java.

    Args:
        language: `go`, `rust` or `java`.
        program: its path below the language's folder.
    """
    folder = os.environ.get("ARMORY_TEST_SDKS", "")
    if not folder:
        pytest.skip("set ARMORY_TEST_SDKS; run tests/protocol/conformance/prepare.py")
    missing = Path(folder) / language / "missing"
    if missing.is_file():
        pytest.skip(f"{missing.read_text(encoding='utf-8')} (toolchain)")
    found = Path(folder) / language / program
    assert found.exists(), f"{found} is not there: run tests/protocol/conformance/prepare.py anew"
    return found
