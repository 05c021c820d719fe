"""The table of subcommands: each entry names what is there."""

from __future__ import annotations

import click
import pytest

from armory.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_is_where_the_table_says(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)
    assert isinstance(found, click.Command)
    assert found.help
