"""The key that seals people's logins: made once, kept, and named where its file holds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.config import Loaded, load_text
from armory.errors import ConfigError
from armory.runtime.blocks.encryption import KEY_FILE, seals


def loaded(home: Path) -> Loaded:
    return load_text("upstreams: {}", environ={"ARMORY_HOME": str(home)})


def test_a_key_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    sealed = seals(loaded(tmp_path)).seal(b"a login", "whose")
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert seals(loaded(tmp_path)).open(sealed, "whose") == b"a login"


@pytest.mark.parametrize("content", [b"", b"\n", b"half-a-key"])
def test_a_file_that_holds_no_whole_key_is_named_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / KEY_FILE
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        seals(loaded(tmp_path))
    assert str(file) in str(refused.value)
    assert "damaged" in str(refused.value)
    assert file.read_bytes() == content
