"""Records of queries are not lost when the gateway ends."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from armory.accounts import query_log
from armory.accounts.query_log import QueryLog, QueryRecord
from armory.errors import BackendError
from armory.storage.database import Database
from armory.tasks import start
from armory.testing.waiting import until


@pytest.mark.anyio
async def test_a_record_is_not_lost_when_its_redacting_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    log = QueryLog(database, enabled=True, retention_days=1)
    begun, go_on = threading.Event(), threading.Event()
    redacted = log.redacted

    def waiting(text: str) -> str:
        begun.set()
        assert go_on.wait(30)
        return redacted(text)

    monkeypatch.setattr(log, "redacted", waiting)
    log.add(QueryRecord("q", "ann", "v1", "first", (), 9, 0.5, 1.0))
    flushing = start(log.flush(), "a flush")
    assert await asyncio.to_thread(begun.wait, 30)
    log.add(QueryRecord("q", "ann", "v1", "second", (), 9, 0.5, 1.0))
    flushing.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    await log.flush()
    assert sorted(record.query for record in await log.recent()) == ["first", "second"]
    await database.close()


@pytest.mark.anyio
async def test_who_is_deleted_while_records_wait_to_be_stored_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.db"
    database = Database(f"sqlite:///{file}")
    await database.open()
    log = QueryLog(database, enabled=True, retention_days=1)
    for user in ("ann", "bob"):
        log.add(QueryRecord("q", user, "v1", "a divorce", (), 9, 0.5, 1.0))
    redacted, texts = log.redacted, list[str]()

    def noting(text: str) -> str:
        texts.append(text)
        return redacted(text)

    monkeypatch.setattr(log, "redacted", noting)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        flushing = start(log.flush(), "a flush")
        await until(lambda: len(texts) == 2)
        for _ in range(100):  # what is ready is on its way to the database, which is locked
            await asyncio.sleep(0)
        log.forget("ann")
        other.execute("COMMIT")
    await flushing
    assert [record.user for record in await log.recent()] == ["bob"]
    await database.close()


@pytest.mark.anyio
async def test_a_record_has_the_time_of_its_query_not_of_its_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(1_000, 9_000, 1_000))
    monkeypatch.setattr("armory.accounts.query_log.now_ms", lambda: next(times))
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.open()
    log = QueryLog(database, enabled=True, retention_days=1)
    for text in ("first", "second"):
        log.add(QueryRecord("q", "ann", "v1", text, (), 9, 0.5, 1.0))
    monkeypatch.setattr("armory.accounts.query_log.now_ms", lambda: 9_000)
    await log.flush()
    found = {record.query: record.at_ms for record in await log.recent()}
    assert found == {"first": 1_000, "second": 2_000}
    await database.close()


@pytest.mark.anyio
async def test_long_queries_that_wait_are_bounded_by_their_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_log, "_QUEUE_CHARS", 20_000)
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    log = QueryLog(database, enabled=True, retention_days=1)
    record = QueryRecord("q", "ann", "v1", "x" * 8_000, (), 9, 0.5, 1.0)
    for _ in range(5):
        log.add(record)
    assert (len(log), log.dropped) == (2, 3)
    with pytest.raises(BackendError):
        await log.flush()  # it is not open
    log.add(record)
    assert (len(log), log.dropped) == (2, 4)
    await database.open()
    await log.flush()
    log.add(record)
    assert (len(log), log.dropped) == (1, 4)
    log.forget("ann")
    for _ in range(3):
        log.add(record)
    assert (len(log), log.dropped) == (2, 5)
    await database.close()
