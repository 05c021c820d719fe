"""`armory init`: a commented configuration to start from, and its schema for editors.

Owns: the command. Never imports a room but `config`.
"""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import click

from armory.cli.options import json_option
from armory.cli.output import out, print_json
from armory.config.home import default_config
from armory.config.schema import SCHEMA_FILE, schema_text
from armory.errors import ConfigError


@click.command()
@click.argument("file", default=default_config, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
def init(file: Path, force: bool, as_json: bool) -> None:
    """Write a commented FILE and its JSON Schema beside it.

    Default: $ARMORY_CONFIG, else ./armory.yaml.
    """
    if file.exists() and not force:
        raise ConfigError(f"{file} exists already; --force replaces it")
    schema = file.with_name(SCHEMA_FILE)
    try:
        file.write_text(starter_text(), encoding="utf-8")
        schema.write_text(schema_text(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    if as_json:
        print_json({"written": [str(file), str(schema)]})
        return
    out().print(
        f"Wrote {file} and {schema}. Next: armory serve --config {shlex.quote(str(file))}",
        markup=False,
        soft_wrap=True,
    )


def starter_text() -> str:
    """The starter configuration."""
    return files("armory.cli").joinpath("starter.yaml").read_text(encoding="utf-8")
