"""Where Armory's data are, for a gateway and for commands that look for it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner

from armory.cli.config.importing import import_file
from armory.cli.main import refused_by_the_system
from armory.config.home import armory_home, home_here
from armory.config.load import load_file
from armory.errors import ConfigError
from armory.runtime.blocks.auditing import audit_file
from armory.runtime.blocks.upstreams import upstream_specs
from armory.runtime.doctor.machine import folders


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


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user as a container has one that runs as any number: without a name and a home folder."""
    for name in ("HOME", "XDG_DATA_HOME", "ARMORY_HOME", "ARMORY_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "armory.yaml").write_text("upstreams: {}\n")


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_folder_is_told_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="ARMORY_HOME"):
        home_here()
    with pytest.raises(ConfigError, match="ARMORY_HOME"):
        load_file(Path("armory.yaml"))
    refused = refused_by_the_system(PermissionError(13, "Permission denied", "there"))
    assert str(refused) == "there cannot be used: Permission denied"
    assert os.listdir() == ["armory.yaml"], "no folder of the name ~"
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path))
    assert list(folders(load_file(Path("armory.yaml"))))
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    imported = CliRunner().invoke(import_file, [".mcp.json", "--print"])
    assert imported.exit_code == 0, imported.output


def test_a_folder_of_a_user_that_there_is_not_is_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    file = tmp_path / "armory.yaml"
    file.write_text(
        "upstreams: {a: {command: x, cwd: ~no-such-user/a}}\n"
        "observability: {audit: {to: ~no-such-user/audit.jsonl}}\n"
    )
    loaded = load_file(file)
    assert audit_file(loaded) == tmp_path / "~no-such-user" / "audit.jsonl"
    (spec,) = upstream_specs(loaded)
    assert spec.cwd == str(tmp_path / "~no-such-user" / "a")
