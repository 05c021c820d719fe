"""`armory keys`: make, list and revoke API keys.

Owns: the commands. A key's text is printed once, on standard output, and kept nowhere.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from armory.accounts.listings import ApiKey, keys_listed
from armory.cli.accounts.opening import (
    BLOCKS,
    NotThere,
    expiry_ms,
    listed,
    need_user,
    note_unknown,
    with_accounts,
)
from armory.cli.options import config_option, json_option, loaded_for
from armory.cli.output import columns, out, print_json, say_notice
from armory.cli.times import shown_time

if TYPE_CHECKING:
    from armory.accounts.service import Accounts


@click.group()
def keys() -> None:
    """API keys: make, list, revoke."""


@keys.command()
@click.argument("name")
@click.option("--user", help="Whose key it is; without: a service key that no packs narrow.")
@click.option("--scope", "scopes", multiple=True, help="What it grants, e.g. admin; repeatable.")
@click.option("--expires", help="A span (90d, 12h) or a date (2027-01-31); default: never.")
@config_option
@json_option
def create(
    name: str,
    user: str | None,
    scopes: tuple[str, ...],
    expires: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Make a key; its text is shown this once."""
    until = expiry_ms(expires)

    async def work(accounts: Accounts) -> tuple[ApiKey, str, bool]:
        off = user is not None and not (await need_user(accounts, user, "user")).is_active
        if user is None and await accounts.users.get(name) is not None:
            say_notice(
                f"there is a user {name!r}, whose key this is not: it is a service key of that "
                f"name, which no packs narrow; `armory keys create NAME --user {name}` makes one "
                "of the user"
            )
        made = await accounts.keys.create(name, user=user, scopes=scopes, expires_at_ms=until)
        return *made, off

    made, text, off = with_accounts(config, work)
    if off:
        say_notice(f"{user} is switched off: no gateway accepts keys of that user")
    if not loaded_for(config, *BLOCKS, quiet=True).config.security.api_keys:
        say_notice("security.api_keys is off: no gateway accepts keys until it is on")
    if as_json:
        print_json({**asdict(made), "key": text})
        return
    click.echo(text)
    say_notice(f"key {made.id}: keep it now, it is shown this once and only its hash is stored")


@keys.command("list")
@click.option("--user", help="Only keys of this user.")
@config_option
@json_option
def list_keys(user: str | None, config: str | None, as_json: bool) -> None:
    """List keys, newest first."""
    found = listed(config, keys_listed(user, limit=100_000))
    if user is not None and not found:
        with_accounts(config, lambda accounts: note_unknown(accounts, user))
    if as_json:
        print_json([asdict(key) for key in found])
        return
    names = ("id", "name", "user", "begins with", "scopes", "expires", "revoked")
    table = columns(*names, whole=("id", "begins with"))
    for key in found:
        table.add_row(
            key.id,
            escape(key.name),
            escape(key.user or "-"),
            key.prefix,
            " ".join(key.scopes),
            shown_time(key.expires_at_ms),
            shown_time(key.revoked_at_ms, "no"),
        )
    out().print(table)


@keys.command()
@click.argument("key_id")
@config_option
@json_option
def revoke(key_id: str, config: str | None, as_json: bool) -> None:
    """Revoke a key by its id; every gateway refuses it within a second."""
    if not with_accounts(config, lambda accounts: accounts.keys.revoke(key_id)):
        raise NotThere(f"there is no key {key_id!r}; `armory keys list` shows them")
    if as_json:
        print_json({"revoked": key_id})
    else:
        click.echo(f"revoked {key_id}")
