"""Options that several commands share, and loading the configuration that they name.

Owns: `--config`, `--url`, `--json`, and where upstreams are written to. Never imports a room but
`config`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from armory.cli.output import say_notice
from armory.config.home import default_config, find_config
from armory.errors import InvalidRequest

if TYPE_CHECKING:
    from armory.config import Loaded

_F = TypeVar("_F", bound=Callable[..., Any])


def _one_place(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse a combination of options of which one would be ignored."""
    given = {**context.params, str(parameter.name): value}
    if given.get("url") is not None and given.get("config") is not None:
        raise click.UsageError("--config names the servers to open here; leave it out with --url.")
    typed = context.get_parameter_source("token") is ParameterSource.COMMANDLINE
    if parameter.name == "url" and value is None and given.get("token") and typed:
        raise click.UsageError("--token is for the gateway at --url; give both or none.")
    return value


def for_subcommand(context: click.Context) -> bool:
    """Whether a subcommand follows, which has options of its own.

    Raises:
        UsageError: some stand before it, where they would be ignored: `usage --user ann forget
            --all` would forget what everybody has taught.
    """
    name = context.invoked_subcommand
    if name is None:
        return False
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name))
        if given is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[0]} stands before {name!r}; give its options behind it, as "
                f"`{context.command_path} {name} --help` shows them."
            )
    return True


config_option = click.option(
    "--config",
    "config",
    metavar="FILE",
    callback=_one_place,
    help="The configuration; default: $ARMORY_CONFIG, else ./armory.yaml.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def refuse_blank(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse a query without a word, whichever gateway is asked."""
    if not all(text.strip() for text in value):
        raise InvalidRequest("the query is blank", parameter="query")
    return value


def _one_line(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Strip the newline at the end of a secret from a file, as for variables of the
    configuration.
    """
    if value is None:
        return None
    text = value.rstrip("\r\n")
    if any(sign in text for sign in "\r\n\0"):
        raise click.BadParameter("it holds a line break; expected a token, which is one line")
    if any("\ud800" <= sign <= "\udfff" for sign in text):  # bytes that Python could not read
        raise click.BadParameter("it is no UTF-8; expected a token")
    return text


def gateway_options(command: _F) -> _F:
    """`--url` and `--token`: ask a gateway that runs; without, the upstreams are opened here."""
    return _url_and_token(command, "the configured upstreams are opened here")


def running_options(command: _F) -> _F:
    """`--url` and `--token`: ask a gateway that runs; without, those that run on this machine."""
    return _url_and_token(command, "the gateways that run on this machine are asked")


def reading_options(command: _F) -> _F:
    """`--url` and `--token`: ask a gateway that runs; without, what this machine has is read."""
    return _url_and_token(command, "what the configuration names is read here")


def _url_and_token(command: _F, otherwise: str) -> _F:
    command = click.option(
        "--token",
        envvar="ARMORY_TOKEN",
        show_envvar=True,
        callback=_one_line,
        help="Bearer token for --url.",
    )(command)
    return click.option(
        "--url",
        metavar="URL",
        callback=_one_place,
        help=f"Ask the gateway at this URL; without it {otherwise}.",
    )(command)


def loaded_config(given: str | None) -> Loaded:
    """Load the configuration, and print its notices to standard error.

    Raises:
        ConfigError: there is none, or it does not hold.
    """
    from armory.config.load import load_file  # a command that asks a gateway needs no models

    loaded = load_file(find_config(given))
    say_notices(loaded)
    return loaded


def loaded_for(given: str | None, *blocks: str, quiet: bool = False) -> Loaded:
    """Load the configuration for a command that only some of its blocks matter to.

    Where a command runs, the variables of upstreams and tokens often are not set: what is wrong in
    another block is said, unless `quiet`, and left out.

    Raises:
        ConfigError: there is none, or something else in it does not hold.
    """
    from armory.config.load import CLIENT_MAPS, load_file
    from armory.config.loaded import ConfigProblems
    from armory.config.model import Config

    file = find_config(given)
    try:
        return load_file(file)
    except ConfigProblems as error:
        others = {*Config.model_fields, *CLIENT_MAPS}.difference(blocks)
        elsewhere = all(found.path.partition(".")[0] in others for found in error.problems)
        if not elsewhere or error.rest is None:
            raise
        if not quiet:
            count = len(error.problems)
            say_notice(
                f"{file} has {count} problem{'s' if count != 1 else ''} that the gateway would not "
                "start with here; `armory validate` names them"
            )
        return error.rest


def say_notices(loaded: Loaded) -> None:
    """Print the notices of a valid configuration to standard error."""
    for line in notices_of(loaded):
        say_notice(line)


def notices_of(loaded: Loaded) -> list[str]:
    """The notices of a valid configuration."""
    from armory.config.checks.warnings import warnings_of

    return [*loaded.notices, *warnings_of(loaded.config)]


def writing_options(command: _F) -> _F:
    """`--into`, `--env` and `--print`: where upstreams are written to, and their secrets."""
    command = click.option(
        "--print", "only_print", is_flag=True, help="Print the upstreams, write nothing."
    )(command)
    command = click.option(
        "--env",
        "env_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Move secrets in clear text to this file, e.g. .env, and write ${VAR} instead.",
    )(command)
    return click.option(
        "--into",
        type=click.Path(dir_okay=False, path_type=Path),
        default=default_config,
        help="The configuration to add to, written when it does not exist; default: "
        "$ARMORY_CONFIG, else ./armory.yaml.",
    )(command)
