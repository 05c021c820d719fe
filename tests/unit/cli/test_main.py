"""The table of subcommands: each entry names what is there."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from armory.cli.main import COMMANDS, cli, refused_by_the_system, told


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_is_where_the_table_says(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)
    assert isinstance(found, click.Command)
    assert found.help


def test_a_folder_that_cannot_be_used_is_told_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.write_text("a file")
    monkeypatch.setenv("ARMORY_HOME", str(home))
    with pytest.raises(OSError) as refused:  # noqa: PT011 - whichever kind the system says
        (home / "pins.json").read_text()
    failure = told(refused.value)
    assert failure["exit_code"] == 2
    assert f"{home / 'pins.json'} cannot be used: Not a directory" in failure["message"]
    assert "$ARMORY_HOME" in failure["message"]

    with pytest.raises(FileNotFoundError) as absent:
        (tmp_path / "absent").read_text()
    assert "$ARMORY_HOME" not in str(refused_by_the_system(absent.value))
