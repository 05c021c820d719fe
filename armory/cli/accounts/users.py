"""`armory users`: make, list, change and delete users.

Owns: the commands.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from armory.accounts.listings import users_listed
from armory.cli.accounts.opening import NotThere, listed, with_accounts
from armory.cli.options import config_option, json_option
from armory.cli.output import columns, out, print_json, say_notice
from armory.cli.times import shown_time

if TYPE_CHECKING:
    from armory.accounts.service import Accounts
    from armory.accounts.users import User


@click.group()
def users() -> None:
    """Users: make, list, change, delete."""


@users.command()
@click.argument("user_id")
@click.option("--plan", help="One of accounts.plans; default: accounts.default_plan.")
@config_option
@json_option
def create(user_id: str, plan: str | None, config: str | None, as_json: bool) -> None:
    """Make a user."""
    made = with_accounts(config, lambda accounts: accounts.users.create(user_id, plan))
    if as_json:
        print_json(asdict(made))
    else:
        click.echo(f"created {made.id} with plan {made.plan}")


@users.command("list")
@config_option
@json_option
def list_users(config: str | None, as_json: bool) -> None:
    """List users."""
    found = listed(config, users_listed(limit=100_000))
    if as_json:
        print_json([asdict(user) for user in found])
        return
    table = columns("id", "plan", "active", "since")
    for user in found:
        active = "yes" if user.is_active else "no"
        table.add_row(escape(user.id), escape(user.plan), active, shown_time(user.created_at_ms))
    out().print(table)


@users.command()
@click.argument("user_id")
@click.option("--plan", help="Another plan.")
@click.option("--active/--inactive", default=None, help="Whether its credentials are accepted.")
@config_option
@json_option
def change(
    user_id: str, plan: str | None, active: bool | None, config: str | None, as_json: bool
) -> None:
    """Change the plan of a user, or switch it on and off."""
    found = with_accounts(
        config, lambda accounts: accounts.users.change(user_id, plan=plan, is_active=active)
    )
    if found is None:
        raise NotThere(
            f"there is no user {user_id!r}; `armory users list` shows them, and `armory users "
            "create` makes one of somebody who comes with tokens of an identity provider, too"
        )
    if as_json:
        print_json(asdict(found))
    else:
        state = "active" if found.is_active else "inactive"
        click.echo(f"{found.id}: plan {found.plan}, {state}")


@users.command()
@click.argument("user_id")
@config_option
@json_option
def delete(user_id: str, config: str | None, as_json: bool) -> None:
    """Delete a user with keys, packs and installations."""

    async def work(accounts: Accounts) -> tuple[User | None, bool]:
        return await accounts.users.get(user_id), await accounts.users.delete(user_id)

    before, gone = with_accounts(config, work)
    if not gone:
        raise NotThere(f"there is no user {user_id!r}; `armory users list` shows them")
    if before is not None and not before.is_active:
        say_notice(
            f"{user_id} was switched off; whoever comes under that name with a static token, or "
            "from an identity provider, is let in again"
        )
    if as_json:
        print_json({"deleted": user_id})
    else:
        click.echo(f"deleted {user_id}")
