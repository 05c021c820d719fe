"""`armory forget`: what was learned from use is forgotten.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

import click

from armory.cli.options import config_option, json_option, loaded_config
from armory.cli.output import out, print_json
from armory.retrieval.uses import UseVectors
from armory.runtime.learning import USES, read_uses, write_uses


@click.command()
@click.option("--tool", help="Only what was learned about this tool.")
@click.option("--user", help="Only what this user taught.")
@config_option
@json_option
def forget(tool: str | None, user: str | None, config: str | None, as_json: bool) -> None:
    """Forget the queries that `tool_rag.learn_from_use` remembers. Stop the gateway first."""
    loaded = loaded_config(config, quiet=True)
    path, model = loaded.home / USES, loaded.config.tool_rag.embedding_model
    uses = UseVectors()
    uses.restore(read_uses(path, model))
    gone = uses.forget(tool=tool, user=user)
    if gone:
        write_uses(path, model, uses.entries())
    if as_json:
        print_json({"forgotten": gone, "kept": len(uses.entries())})
    else:
        out().print(f"Forgot {gone} uses, kept {len(uses.entries())}.")
