"""What a gateway reads of the audit while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from armory.audit import reading
from armory.audit.reading import RecordFilter, records
from armory.audit.record import Entry, parsed
from armory.audit.settings import AuditSettings
from armory.audit.sinks import DatabaseSink
from armory.audit.threaded import ThreadedSink
from armory.audit.writer import opened_audit
from armory.config import load_text
from armory.runtime.blocks.auditing import audit_reader
from armory.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_it_is_read_on_while_newer_replicas_have_upgraded_the_database(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    config = f"{{storage: {{url: '{url}'}}, observability: {{audit: {{to: database}}}}}}"
    read = audit_reader(load_text(config, environ={"ARMORY_HOME": str(tmp_path)}))
    assert read is not None
    sink = ThreadedSink(DatabaseSink(Database(url), 36_500))
    async with opened_audit(sink, AuditSettings()) as audit:
        audit.note(Entry(1_790_000_000.0, "ann", "token:x", "/mcp", "tools/list", "ok"))
    database = Database(url)
    await database.open()
    async with database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = 'newer'"))
    await database.close()
    assert "ann" in [record["who"] for record in await read(RecordFilter(), 10)]


@pytest.mark.parametrize(
    ("wanted", "limit", "most"),
    [
        (RecordFilter(), 10, 500),
        (RecordFilter(who="user-1?99*"), 7, 1_000),
        (RecordFilter(since="2026-09-21T14:13:10"), 1_000, 500),
        (RecordFilter(), 1_200, 1_200),
    ],
)
async def test_of_many_records_of_a_database_the_latest_alone_are_read(
    tmp_path: Path,
    wanted: RecordFilter,
    limit: int,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    sink = ThreadedSink(DatabaseSink(Database(url), 36_500))
    async with opened_audit(sink, AuditSettings()) as audit:
        for n in range(2_000):
            at = 1_789_998_000.0 + n
            audit.note(Entry(at, f"user-{n}", "none", "/mcp", "tools/list", "ok"))
    every = await records(url, [], RecordFilter(), 10_000)
    read: list[object] = []

    def noted(line: bytes | str) -> dict[str, object] | None:
        read.append(line)
        return parsed(line)

    monkeypatch.setattr(reading, "parsed", noted)
    found = await records(url, [], wanted, limit)
    assert found == [record for record in every if wanted.fits(record)][-limit:] != []
    assert len(read) <= 2 * most  # each once more, to see that its columns agree
