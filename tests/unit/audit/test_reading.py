"""What a gateway reads of the audit while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from armory.audit.reading import RecordFilter
from armory.audit.record import Entry
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
