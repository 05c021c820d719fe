"""`armory`: finds the subcommand, and turns errors into a message and an exit code.

Owns: the list of commands, imported only when used, and the exit codes. Exit codes: 0 done, 1 the
thing asked for failed, 2 usage or configuration, 3 an upstream could not be reached.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from armory.cli.output import say_failure
from armory.config.home import home_here
from armory.config.problems import nearest
from armory.domain.encoding import is_encodable
from armory.errors import ArmoryError, ConfigError, InvalidRequest, UpstreamUnavailable
from armory.observability.deferred import log_later
from armory.observability.settings import LogSettings

FAILED, USAGE, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130
_STDERR = 2
_YOUNG = 50_000

COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module below `armory.cli`, attribute, short help)
    "serve": ("gateway.serve", "serve", "Run the gateway."),
    "validate": ("config.validate", "validate", "Check armory.yaml, every problem at once."),
    "init": ("config.init", "init", "Write a commented armory.yaml to start from."),
    "import": ("config.importing", "import_file", "Take over servers of another client."),
    "add": ("config.add", "add", "Add a server of the MCP registry."),
    "export": ("config.export", "export", "Print a client's configuration for this gateway."),
    "tools": ("catalog.tools", "tools", "List tools: all, or those that fit a query."),
    "search": ("catalog.search", "search", "Search tools and see scores and reasons."),
    "call": ("catalog.call", "call", "Call one tool."),
    "eval": ("quality.eval", "eval_command", "Measure retrieval on a labelled set."),
    "tune": ("quality.tune", "tune_command", "Fit scores to your own tools, suggest a threshold."),
    "queries": ("quality.queries", "queries", "Write example queries of tools with a model."),
    "report": ("quality.report", "report", "Count what the tools cost in a prompt."),
    "keys": ("accounts.keys", "keys", "Make, list and revoke API keys."),
    "users": ("accounts.users", "users", "Make, list, change and delete users."),
    "packs": ("accounts.packs", "packs", "Packs of tools, and who has installed them."),
    "usage": ("accounts.usage", "usage", "Statistics of calls, and what is left of a plan."),
    "status": ("gateway.status", "status", "What runs, what is down, and why."),
    "console": ("gateway.console", "console", "A link to the console, logged in."),
    "logs": ("gateway.logs", "logs", "What a server wrote to standard error."),
    "audit": ("gateway.audit", "audit", "Who asked what; `verify`: whether the record is whole."),
    "doctor": ("gateway.doctor", "doctor", "What is wrong with a set-up, and what to do."),
    "reload": ("gateway.reload", "reload", "Make a gateway read its configuration again."),
    "login": ("gateway.login", "login", "Log in at an upstream, as a person."),
    "logout": ("gateway.login", "logout", "Delete that login."),
    "approve": ("gateway.approve", "approve", "Approve changed tool definitions."),
    "schema": ("config.schema", "schema", "Print the JSON Schema of armory.yaml."),
    "version": ("gateway.version", "version", "Print the version."),
}
"""Every subcommand; further ones are one line each."""


class _Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        module, attribute, _help = found
        command: click.Command = getattr(importlib.import_module(f"armory.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in COMMANDS and (near := nearest(name, COMMANDS)):
            ctx.fail(f"No such command {name!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="armory-mcp-gateway", prog_name="armory")
def cli() -> None:
    """One URL in front of many MCP servers; tools/list answers the query.

    Configuration: --config, else $ARMORY_CONFIG, else ./armory.yaml.
    """
    log_later(LogSettings("debug" if os.environ.get("ARMORY_DEBUG") else "error"))


def exit_code(error: ArmoryError) -> int:
    """The exit code that an error deserves."""
    if error.code == "already_exists":  # an `InvalidRequest` for REST, but no wrong usage here
        return FAILED
    if isinstance(error, (ConfigError, InvalidRequest)):
        return USAGE
    return UNREACHABLE if isinstance(error, UpstreamUnavailable) else FAILED


def error_json(error: ArmoryError | OSError) -> dict[str, Any]:
    """An error as `--json` shows it."""
    if isinstance(error, OSError):
        error = refused_by_the_system(error)
    shown: dict[str, Any] = {
        "code": error.code,
        "message": str(error) or error.message,
        "exit_code": exit_code(error),
    }
    for name in ("path", "parameter", "retry_after_s", "rpc_code", "data"):
        if (value := getattr(error, name, None)) not in (None, ""):
            shown[name] = value
    if isinstance(error, ConfigError):
        from armory.config.loaded import ConfigProblems  # with all models: only where it is needed

        if isinstance(error, ConfigProblems):
            shown["problems"] = error.as_json()
    return shown


def refused_by_the_system(error: OSError) -> ConfigError:
    """An operating-system error (a file, a full disk) for people, with the setting behind it if it
    is ours.
    """
    if os.environ.get("ARMORY_DEBUG"):
        traceback.print_exception(error)
    why = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return ConfigError(f"the system refuses: {why}")
    message = f"{error.filename} cannot be used: {why}"
    try:
        home = home_here()
    except ConfigError:  # there is none, so it is not to blame
        return ConfigError(message)
    refused = Path(str(error.filename))
    if refused.is_relative_to(home) or home.is_relative_to(refused):
        message += (
            f"; Armory keeps its data in {home}, which has to be a folder that this user may write:"
            " name another one with $ARMORY_HOME"
        )
    return ConfigError(message)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and exit. No traceback reaches a user; `ARMORY_DEBUG=1` shows it."""
    # Before NumPy loads: its threads spin for each other, which costs a busy machine 2x the CPU
    # and 10x the time of a search; searches run side by side in threads of their own instead.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Before pydantic loads: it would read what every installed distribution declares, for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # What a command imports is no garbage: to look for some among it, on the way and once more at
    # the end of the process, takes a fifth of the CPU of a short command.
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    _fill_standard_streams()
    _write_any_text()
    given = list(sys.argv[1:] if arguments is None else arguments)
    _keep_through_hangups(given)
    sys.exit(_run(given))


def _write_any_text() -> None:
    """Have standard output show what its encoding lacks (that of a locale without UTF-8), and half
    a character, as question marks.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _run(given: list[str]) -> int:
    """Run a command line and report errors; returns the exit code."""
    as_json = "--json" in given[: given.index("--") if "--" in given else None]
    try:
        _refuse_windows()
        code = cli.main(args=given, prog_name="armory", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        if as_json:
            code = error.exit_code
            usage = {"code": "usage", "message": error.format_message(), "exit_code": code}
            say_failure(usage, as_json=True)
        else:
            error.show()
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe went away
        sys.stderr.close()
        return FAILED
    except (ArmoryError, OSError) as error:
        failure = error_json(error)
        say_failure(failure, as_json=as_json)
        return failure["exit_code"]
    except Exception as error:  # noqa: BLE001 - the last line of defence before a user's terminal
        if os.environ.get("ARMORY_DEBUG"):
            traceback.print_exc()
        failure = _unforeseen(error, given)
        say_failure(failure, as_json=as_json)
        return failure["exit_code"]


def _unforeseen(error: Exception, given: Sequence[str]) -> dict[str, Any]:
    """An error that no command expects, as `--json` shows it."""
    odd = [one for one in given if isinstance(error, UnicodeError) and not is_encodable(one)]
    if odd:  # a file may be called so, hardly anything else
        return {"code": "usage", "message": f"{odd[0]!r} is not UTF-8 text", "exit_code": USAGE}
    message = (
        f"unexpected {type(error).__name__}: {error}\n"
        "This is a defect of Armory; ARMORY_DEBUG=1 shows where it happened."
    )
    return {"code": "internal", "message": message, "exit_code": FAILED}


def _refuse_windows() -> None:
    """Refuse Windows before anything uses what only POSIX has.

    Raises:
        ConfigError: the system is Windows.
    """
    if sys.platform == "win32":
        raise ConfigError(
            "Armory runs on Linux and macOS; on Windows run it in WSL (`wsl --install`) or in a "
            "container"
        )


def _keep_through_hangups(given: list[str]) -> None:
    """Ignore SIGHUP until `armory serve` handles it: it must not end a gateway that is starting."""
    if given[:1] == ["serve"] and sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _fill_standard_streams() -> None:
    """Open closed standard streams (`<&-`), so that no other file gets their number: libuv ends a
    process that closes one. Only `sys.__stdin__` and `sys.__stdout__` tell that they were closed.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, errors="replace", closefd=False))  # noqa: SIM115 - until the end


if __name__ == "__main__":
    main()
