"""Which file is read, and what cannot be read as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.config import find_config, load_file
from armory.errors import ConfigError


def test_the_file_is_found_by_flag_then_variable_then_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="armory init"):
        find_config(None, {})
    (tmp_path / "armory.yaml").write_text("")
    assert find_config(None, {}) == Path("armory.yaml")
    other = tmp_path / "other.yaml"
    other.write_text("")
    assert find_config(None, {"ARMORY_CONFIG": str(other)}) == other
    with pytest.raises(ConfigError, match="--config"):
        find_config("nowhere.yaml", {"ARMORY_CONFIG": str(other)})
    with pytest.raises(ConfigError, match=r"is a folder; name the file, such as '.*armory\.yaml'"):
        find_config(str(tmp_path), {})
    with pytest.raises(ConfigError, match="--config names '/dev/null', which is a pipe or a dev"):
        find_config("/dev/null", {})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "armory.yaml"
    for text, named in ((b"\xff\xfe\x00", "UTF-16"), (b"a: \xfc", "invalid start byte")):
        file.write_bytes(text)
        with pytest.raises(ConfigError, match=rf"is not UTF-8 text \({named}\)"):
            load_file(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_file(tmp_path)
