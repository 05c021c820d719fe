"""`armory init`: writes a commented configuration to start from, and its schema for editors.

Owns: the command. Never imports a room but `config`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import click

from armory.cli.options import json_option
from armory.cli.output import out, print_json
from armory.config.home import default_config
from armory.config.schema import SCHEMA_FILE, schema_text
from armory.errors import ConfigError


@click.command()
@click.argument(
    "file", default=default_config, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path)
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
def init(file: Path, force: bool, as_json: bool) -> None:
    """Write a commented FILE and its JSON Schema beside it.

    Default: $ARMORY_CONFIG, else ./armory.yaml. With - as FILE it is printed.
    """
    if str(file) == "-":
        click.echo(starter_text(), nl=False)
        return
    if file.exists() and not force:
        raise ConfigError(f"{file} exists already; --force replaces it")
    schema = file.with_name(SCHEMA_FILE)
    _write({schema: schema_text(), file: starter_text()})
    if as_json:
        print_json({"written": [str(file), str(schema)]})
        return
    out().print(
        f"Wrote {file} and {schema}. Next: armory serve --config {shlex.quote(str(file))}",
        markup=False,
        soft_wrap=True,
    )


def _write(texts: Mapping[Path, str]) -> None:
    """All files or none: half of a configuration, as of a full disk, is one that seems to be there.

    Raises:
        ConfigError: one cannot be written; what was there is as it was.
    """
    made = {file: file.with_name(f"{file.name}.new") for file in texts}
    file = Path()
    try:
        for file, text in texts.items():
            made[file].write_text(text, encoding="utf-8")
        for file, new in made.items():
            new.replace(file)
    except OSError as error:
        for new in made.values():
            with suppress(OSError):
                new.unlink()
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None


def starter_text() -> str:
    """The starter configuration."""
    return files("armory.cli").joinpath("starter.yaml").read_text(encoding="utf-8")
