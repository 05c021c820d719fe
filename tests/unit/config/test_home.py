"""Where Armory's data are, for a gateway and for commands that look for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.config.home import armory_home, home_here
from armory.config.load import load_file


def test_commands_look_where_a_gateway_that_is_started_here_has_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARMORY_HOME", raising=False)
    monkeypatch.delenv("ARMORY_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    usual = armory_home()
    assert home_here() == usual, "no file"
    (tmp_path / ".env").write_text("ARMORY_HOME=/srv/one\n")
    assert home_here() == usual, "nothing is started here"
    (tmp_path / "armory.yaml").write_text("upstreams: {}\n")
    assert home_here() == load_file(Path("armory.yaml")).home == Path("/srv/one")
    other = tmp_path / "other"
    other.mkdir()
    (other / "armory.yaml").write_text("upstreams: {}\n")
    assert home_here(str(other / "armory.yaml")) == usual
    monkeypatch.setenv("ARMORY_CONFIG", str(other / "armory.yaml"))
    assert home_here() == usual
    monkeypatch.setenv("ARMORY_HOME", "/srv/two")
    assert home_here() == Path("/srv/two"), "the environment wins"
