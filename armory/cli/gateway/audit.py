"""`armory audit`: shows the records of the audit, and verifies their chain.

Owns: the commands. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from armory.cli.options import (
    config_option,
    for_subcommand,
    json_option,
    loaded_for,
    reading_options,
)
from armory.cli.output import print_json, say_notice, tell
from armory.cli.times import moment_of, span_of
from armory.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from armory.audit.checking import Verdict

_MOST = 10_000
"""Records that a gateway gives at once."""
_files = click.option(
    "--file",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Read this file, or several in their order; default: where the configuration writes to.",
)


@click.group(invoke_without_command=True)
@click.option("--who", help="Only of these users or credentials (glob pattern).")
@click.option("--tool", help="Only about these tools, prompts or URIs (glob pattern).")
@click.option("--since", help="Not older than this: `90m`, `24h`, `7d`, `2w`, or a date or time.")
@click.option("--limit", type=click.IntRange(1), default=100, help="Only the last N records.")
@_files
@reading_options
@config_option
@json_option
@click.pass_context
def audit(
    context: click.Context,
    who: str | None,
    tool: str | None,
    since: str | None,
    limit: int,
    files: tuple[Path, ...],
    url: str | None,
    token: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Who asked what: the records of `observability.audit`, oldest first."""
    if for_subcommand(context):
        return
    given = {"who": who, "tool": tool, "since": _since(since)}
    if url is not None:
        if files:
            raise InvalidRequest("--url reads another gateway's audit; leave out --file")
        limit = min(limit, _MOST)
        found = _remote(url, token, {**given, "limit": limit})
    else:
        from armory.audit.reading import RecordFilter, records

        database, read = _source(config, files)
        found = asyncio.run(records(database, read, RecordFilter(**given), limit))
    if len(found) == limit:
        more = "; --limit gives more" if limit < _MOST or url is None else ""
        say_notice(f"these are the last {limit:,}, there may be earlier ones{more}")
    if as_json:
        print_json(found)
        return
    for record in found:
        _print(record)


@audit.command("verify")
@_files
@config_option
@json_option
def verify_command(files: tuple[Path, ...], config: str | None, as_json: bool) -> None:
    """Check that no record was changed and none is missing.

    Names the first that is.
    """
    from armory.audit.reading import checked

    url, read = _source(config, files)
    found = asyncio.run(checked(url, read))
    if as_json:
        print_json(_as_json(found))
    else:
        _tell(found)
    if found.problem is not None:
        raise SystemExit(1)


def _remote(url: str, token: str | None, asked: dict[str, Any]) -> list[dict[str, object]]:
    from armory.cli.gateway.running import gateways

    query = urlencode({key: value for key, value in asked.items() if value is not None})
    (gateway,) = gateways(url, token)
    return gateway.get(f"/v1/audit?{query}")["records"]


def _source(config: str | None, files: tuple[Path, ...]) -> tuple[str | None, list[Path]]:
    """(URL of the database or None, files)."""
    if files:
        return None, list(files)
    from armory.runtime.blocks.auditing import audit_file

    loaded = loaded_for(config, "storage", "observability")
    to = loaded.config.observability.audit.to
    if to == "database":
        return loaded.config.storage.url, []
    file = audit_file(loaded)
    if file is None:
        kept = "standard output" if to == "stdout" else "nowhere"
        raise ConfigError(
            f"the audit is written {kept}; name a file with --file, or write it to a file or "
            "`database`",
            path="observability.audit.to",
        )
    return None, [file]


def _since(text: str | None) -> str | None:
    """The oldest time as records have it.

    Raises:
        InvalidRequest: the text is no time.
    """
    if text is None:
        return None
    span = span_of(text)
    at = moment_of(text) if span is None else datetime.now(UTC) - span
    if at is None:
        raise InvalidRequest(
            f"--since is {text!r}; expected 90m, 24h, 7d, 2w, 2026-01-31 or 2026-01-31T12:00"
        )
    return at.strftime("%Y-%m-%dT%H:%M:%S")


def _print(record: dict[str, object]) -> None:
    code = f" ({record['code']})" if record.get("code") else ""
    what = " ".join(str(record[key]) for key in ("method", "tool") if record.get(key))
    via = f" via {record['upstream']}" if record.get("upstream") else ""
    line = f"{record['at']}  {record['who']}  {what or record['endpoint']}{via}"
    tell(f"{line}  {record['outcome']}{code}  {record['ms']} ms", hang=4)


def _as_json(found: Verdict) -> dict[str, Any]:
    return {
        "whole": found.problem is None,
        "records": found.records,
        "first": found.first,
        "last": found.last,
        "problem": found.problem,
        "at": found.at,
        "after_kill": found.unclean,
        "open": sorted(found.open.values()),
        "dropped": found.dropped,
    }


def _tell(found: Verdict) -> None:
    if found.problem is not None:
        tell(f"not whole at record {found.at}: {found.problem}")
        good = found.last - found.first + 1 if found.last else 0
        cut = found.at is not None and good and found.first > found.at
        which = f"from {found.first} on" if cut else "before it"
        tell(f"the {good:,} records {which} are as they were")
        return
    records = "1 record" if found.records == 1 else f"{found.records:,} records"
    tell(f"whole: {records}, {found.first} to {found.last}")
    for seq in found.unclean:
        tell(
            f"after record {seq} a process ended without closing the audit: up to its last second "
            "may be missing"
        )
    for seq in sorted(found.open.values()):
        tell(
            f"who opened the audit with record {seq} has not closed it: it runs still, or was "
            "killed and up to its last second may be missing"
        )
    if found.dropped:
        tell(f"{found.dropped:,} records were dropped because they could not be written in time")
