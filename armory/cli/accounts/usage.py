"""`armory usage`: statistics of tools and users, quotas, and what was learned from use.

Owns: the command and `armory usage forget`.
"""

from __future__ import annotations

import click
from rich.markup import escape

from armory.accounts.service import Accounts
from armory.accounts.usage.rows import Row, quota_row, tool_rows, user_rows
from armory.accounts.usage.statistics import UsageStatistics
from armory.cli.accounts.opening import note_unknown, with_accounts
from armory.cli.options import config_option, for_subcommand, json_option
from armory.cli.output import columns, out, print_json
from armory.cli.times import shown_time
from armory.errors import InvalidRequest
from armory.feedback.store import StoredUses


@click.group(invoke_without_command=True)
@click.option("--user", help="What one user has used, and what is left of its plan.")
@click.option("--queries", type=click.IntRange(1, 1_000), help="Show the latest N queries.")
@config_option
@json_option
@click.pass_context
def usage(
    context: click.Context,
    user: str | None,
    queries: int | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Show statistics of tools, of one user, or the latest queries."""
    if for_subcommand(context):
        return

    async def work(accounts: Accounts) -> tuple[list[Row], Row | None]:
        if user is not None:
            await note_unknown(accounts, user)
        if queries is not None:
            return await _queries(accounts, user, queries), None
        if user is None:
            await accounts.usage.refresh()
            return _of_tools(accounts.usage), None
        used = await accounts.usage.of_user(user)
        return user_rows(used), quota_row(await accounts.plans.standing(user))

    rows, quota = with_accounts(config, work)
    if as_json:
        print_json({"rows": rows, "quota": quota} if quota is not None else {"rows": rows})
        return
    if quota is not None:
        limit = quota["queries_limit"]
        left = "without limit" if limit is None else f"of {limit}"
        click.echo(
            f"plan {quota['plan']}: {quota['current_month_usage']} queries {left} this month"
        )
    if not rows:
        click.echo("nothing yet")
        return
    names = (name.removesuffix("_at_ms").replace("_", " ") for name in rows[0])
    table = columns(*names, whole=("tool",))
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    out().print(table)


@usage.command()
@click.option("--user", help="What this user's calls have taught.")
@click.option("--tool", metavar="NAME", help="What was learned about this tool, e.g. time__now.")
@click.option("--all", "everything", is_flag=True, help="Everything.")
@config_option
@json_option
def forget(
    user: str | None, tool: str | None, everything: bool, config: str | None, as_json: bool
) -> None:
    """Delete what was learned from use (`tool_rag.learn_from_use`).

    Running gateways forget it as well. With --user and --tool: what that user has taught about that
    tool. Statistics stay.
    """
    if everything == (user is not None or tool is not None):
        raise InvalidRequest(
            "say what to forget: --user, --tool, both, or else --all", parameter="all"
        )

    async def work(accounts: Accounts) -> dict[str, int]:
        uses = StoredUses(accounts.database, accounts.feed)
        forgotten = await uses.forget(tool=tool, user=user)
        return {"forgotten": forgotten, "kept": await uses.count()}

    counts = with_accounts(config, work)
    if as_json:
        print_json(counts)
        return
    click.echo(f"forgot {counts['forgotten']} uses, kept {counts['kept']}")


async def _queries(accounts: Accounts, user: str | None, limit: int) -> list[Row]:
    records = await accounts.query_log.recent(user=user, limit=limit)
    return [
        {
            "asked_at_ms": record.at_ms,
            "user": record.user or "-",
            "surface": record.surface,
            "query": record.query,
            "returned": len(record.returned),
            "took_ms": round(record.took_ms, 1),
        }
        for record in records
    ]


def _of_tools(usage: UsageStatistics) -> list[Row]:
    rows = tool_rows(usage, usage.tools(), share_digits=4, ms_digits=1)
    return [{name: row[name] for name in row if name != "successes"} for row in rows]


def _cell(name: str, value: object) -> str:
    if name.endswith("_at_ms") and isinstance(value, int):
        return shown_time(value)
    return escape(str(value))
