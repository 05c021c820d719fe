"""`armory packs`: make, list and delete packs; install, enable, disable and uninstall for a user.

Owns: the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TypeVar

import click
from rich.markup import escape

from armory.accounts.packs import Installation, Kind, Pack
from armory.accounts.service import Accounts
from armory.cli.accounts.opening import (
    BLOCKS,
    NotThere,
    has_tool,
    need_user,
    note_unknown,
    with_accounts,
)
from armory.cli.options import config_option, json_option, loaded_for
from armory.cli.output import columns, out, print_json, say_notice
from armory.domain.naming import split_name
from armory.errors import InvalidRequest

_F = TypeVar("_F", bound=Callable[..., object])


def _of_an_installation(command: _F) -> _F:
    """`NAME`, `--user` and `--kind`: which installation a command is about."""
    command = click.option(
        "--kind",
        type=click.Choice(["pack", "server", "tool"]),
        default="pack",
        show_default=True,
        help="What NAME is.",
    )(command)
    whose = click.option("--user", required=True, help="Whose installations are meant.")
    return click.argument("name")(whose(command))


@click.group()
def packs() -> None:
    """Packs of tools: make, list, install, enable, disable, uninstall, delete."""


@packs.command()
@click.argument("pack_id")
@click.option("--title", help="For people; default: the id.")
@click.option("--description", default="", help="For people.")
@click.option("--server", "servers", multiple=True, help="A whole server; repeatable.")
@click.option("--tool", "tools", multiple=True, help="One tool, exposed name; repeatable.")
@click.option("--owner", help="The user whose own it is; without: shared with everybody.")
@config_option
@json_option
def create(
    pack_id: str,
    title: str | None,
    description: str,
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    owner: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Make a pack."""
    pack = Pack(pack_id, owner, title or pack_id, description, servers, tools)
    configured = loaded_for(config, *BLOCKS, quiet=True).config.upstreams

    async def work(accounts: Accounts) -> Pack:
        if owner is not None:
            await need_user(accounts, owner, "owner")
        _check_known(accounts, configured, servers, tools)
        return await accounts.packs.create(pack)

    made = with_accounts(config, work)
    _note_unlisted(tools)
    if not (servers or tools):
        say_notice(f"{made.id} holds nothing; --server and --tool say what it is to hold")
    if as_json:
        print_json(asdict(made))
    else:
        click.echo(f"created {made.id}")


def _check_known(
    accounts: Accounts, upstreams: Iterable[str], servers: Iterable[str], tools: Iterable[str]
) -> None:
    registered = accounts.registry.records
    known = {*upstreams, *(tool.server for tool in registered.values())}
    named = ", ".join(sorted(known)) or "none"
    for server in servers:
        if server not in known:
            raise InvalidRequest(
                f"there is no server {server!r}; there are: {named}", parameter="server"
            )
    for tool in tools:
        server, _ = split_name(tool) or ("", "")
        if server not in known:  # its tools are only known while it runs
            raise InvalidRequest(
                f"the tool {tool!r} is of no known server; expected SERVER__TOOL with one of: "
                f"{named}",
                parameter="tool",
            )


def _note_unlisted(tools: Iterable[str]) -> None:
    """Say so where no gateway that runs here has a tool: a slip, or one that is yet to come."""
    for tool in tools:
        if not has_tool(tool):
            say_notice(f"no gateway that runs here has a tool {tool!r} now; is it spelt so?")


@packs.command("list")
@click.option("--user", help="Only what this user sees, and what of it is installed.")
@config_option
@json_option
def list_packs(user: str | None, config: str | None, as_json: bool) -> None:
    """List packs."""

    async def work(accounts: Accounts) -> tuple[list[Pack], list[Installation]]:
        if user is not None:
            await note_unknown(accounts, user)
        found: list[Pack] = []
        while part := await accounts.packs.list(user=user, after=found[-1].id if found else ""):
            found += part
        return found, await accounts.packs.installed(user) if user is not None else []

    found, installed = with_accounts(config, work)
    if as_json:
        shown = {"packs": [asdict(pack) for pack in found]}
        if user is not None:
            shown["installations"] = [asdict(item) for item in installed]
        print_json(shown)
        return
    state = {i.value: "active" if i.is_active else "off" for i in installed if i.kind == "pack"}
    last = "installed" if user else ""
    table = columns("id", "title", "owner", "servers", "tools", last, whole=("id",))
    for pack in found:
        table.add_row(
            pack.id,
            escape(pack.title),
            escape(pack.owner or "shared"),
            escape(" ".join(pack.servers)),
            escape(" ".join(pack.tools)),
            state.get(pack.id, ""),
        )
    out().print(table)
    for item in installed:
        if item.kind != "pack":
            active = "active" if item.is_active else "off"
            out().print(f"{item.kind} {item.value}: {active}", markup=False)


@packs.command()
@click.argument("pack_id")
@config_option
@json_option
def delete(pack_id: str, config: str | None, as_json: bool) -> None:
    """Delete a pack and its installations."""
    if not with_accounts(config, lambda accounts: accounts.packs.delete(pack_id, user=None)):
        raise _unknown(pack_id)
    _done(f"deleted {pack_id}", as_json)


@packs.command()
@_of_an_installation
@config_option
@json_option
def install(name: str, user: str, kind: Kind, config: str | None, as_json: bool) -> None:
    """Install a pack, a server or a tool for a user, active at once."""
    loaded = loaded_for(config, *BLOCKS, quiet=True).config
    configured = loaded.upstreams
    servers = [name] if kind == "server" else []
    tools = [name] if kind == "tool" else []

    async def work(accounts: Accounts) -> None:
        if kind == "pack" and await accounts.packs.get(name, user=None) is None:
            raise _unknown(name)
        _check_known(accounts, configured, servers, tools)
        known = await accounts.users.get(user) is not None
        await accounts.packs.install(user, [(kind, name)], sees_all=True)
        if not known:  # an identity provider's may come later
            say_notice(f"there was no user {user!r}; the installation made it")

    with_accounts(config, work)
    _note_unlisted(tools)
    if not loaded.accounts.enabled:
        say_notice("accounts.enabled is off: no gateway goes by what is installed until it is on")
    _done(f"installed {kind} {name} for {user}", as_json)


@packs.command()
@_of_an_installation
@config_option
@json_option
def enable(name: str, user: str, kind: Kind, config: str | None, as_json: bool) -> None:
    """Let an installation count again."""
    _set_active(name, user, kind, config, as_json, active=True)


@packs.command()
@_of_an_installation
@config_option
@json_option
def disable(name: str, user: str, kind: Kind, config: str | None, as_json: bool) -> None:
    """Keep an installation without letting it count."""
    _set_active(name, user, kind, config, as_json, active=False)


@packs.command()
@_of_an_installation
@config_option
@json_option
def uninstall(name: str, user: str, kind: Kind, config: str | None, as_json: bool) -> None:
    """Forget an installation."""
    if not with_accounts(config, lambda accounts: accounts.packs.uninstall(user, kind, name)):
        raise _not_installed(name, user, kind)
    _done(f"uninstalled {kind} {name} for {user}", as_json)


def _set_active(
    name: str, user: str, kind: Kind, config: str | None, as_json: bool, *, active: bool
) -> None:
    found = with_accounts(
        config, lambda accounts: accounts.packs.set_active(user, kind, name, active=active)
    )
    if not found:
        raise _not_installed(name, user, kind)
    _done(f"{'enabled' if active else 'disabled'} {kind} {name} for {user}", as_json)


def _unknown(pack_id: str) -> NotThere:
    return NotThere(f"there is no pack {pack_id!r}; `armory packs list` shows them")


def _not_installed(name: str, user: str, kind: Kind) -> NotThere:
    return NotThere(f"{user!r} has not installed the {kind} {name!r}")


def _done(text: str, as_json: bool) -> None:
    if as_json:
        print_json({"done": text})
    else:
        click.echo(text)
