from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from armory.libraries import read_ahead


def test_compiled_files_are_read_to_their_end_and_others_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "compiled"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('only found, not imported')")
    for name in ("fast.abi3.so", "inner/libfast.so.1.2", "inner/model.bin"):
        (package / name).write_bytes(b"x" * 3_000_000)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    before = _read_chars()
    read_ahead("compiled")
    assert 6_000_000 <= _read_chars() - before < 9_000_000


@pytest.mark.parametrize("package", ["no_such_package", "abc", "sys"])
def test_what_is_no_package_is_left_to_the_import(package: str) -> None:
    read_ahead(package)


def _read_chars() -> int:
    """Bytes that this process has read from files so far."""
    if not os.path.exists("/proc/self/io"):
        pytest.skip("only Linux counts them")
    return int(Path("/proc/self/io").read_text().split()[1])
