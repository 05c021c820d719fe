"""`armory schema`: the JSON Schema of the configuration.

Owns: the command. Never imports a room but `config`.
"""

from __future__ import annotations

import click

from armory.config.schema import schema_text


@click.command()
@click.option("--json", "as_json", is_flag=True, help="No effect: the output is JSON.")
def schema(as_json: bool) -> None:
    """Print the JSON Schema of armory.yaml, for editors."""
    click.echo(schema_text(), nl=False)
