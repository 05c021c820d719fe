"""What is told is written, in order, on every sink, and what cannot be is counted."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import text

from armory.audit.reading import RecordFilter, checked, records
from armory.audit.record import DROPPED, Entry, arguments_of
from armory.audit.settings import AuditSettings
from armory.audit.sinks import DatabaseSink, FileSink, Sink
from armory.audit.threaded import ThreadedSink
from armory.audit.writer import opened_audit
from armory.errors import BackendError, ConfigError
from armory.observability.redaction import redacted_json
from armory.storage.database import Database
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
KINDS = ["file", "database"]


def entry(number: int, at: float = 1_790_000_000.0) -> Entry:
    return Entry(at, f"user-{number}", "token:x", "/mcp", "tools/call", "ok", tool=f"a__{number}")


class Place:
    """Where one audit is, whatever its sink."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.file = folder / "deep" / "audit.jsonl"
        self.url = None if kind == "file" else f"sqlite:///{folder}/armory.db"

    def sink(self, days: int = 36_500) -> Sink:
        return ThreadedSink(self.own(days))

    def own(self, days: int = 36_500) -> Sink:
        return FileSink(self.file) if self.url is None else DatabaseSink(Database(self.url), days)

    async def write(self, entries: Sequence[Entry], days: int = 36_500) -> None:
        async with opened_audit(self.sink(days), AuditSettings()) as audit:
            for one in entries:
                audit.note(one)

    async def calls(self, wanted: RecordFilter | None = None) -> list[object]:
        found = await records(self.url, [self.file], wanted or RecordFilter(), limit=10_000)
        return [record["who"] for record in found if record["method"] == "tools/call"]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


async def test_what_is_told_is_written_in_order_over_restarts(place: Place) -> None:
    await place.write([entry(n) for n in range(3_000)])
    await place.write([entry(n) for n in range(3_000, 3_010)])
    assert await place.calls() == [f"user-{n}" for n in range(3_010)]
    found = await checked(place.url, [place.file])
    assert (found.problem, found.records, found.open) == (None, 3_014, {})


async def test_records_are_found_by_who_tool_and_time(place: Place) -> None:
    await place.write([entry(1), entry(12), entry(2, at=1_800_000_000.0)])
    assert await place.calls(RecordFilter(who="user-1*")) == ["user-1", "user-12"]
    assert await place.calls(RecordFilter(tool="a__2")) == ["user-2"]
    assert await place.calls(RecordFilter(since="2027-01-01")) == ["user-2"]


async def test_a_changed_or_deleted_row_shows(tmp_path: Path) -> None:
    place = Place("database", tmp_path)
    await place.write([entry(n) for n in range(5)])
    database = Database(str(place.url))
    await database.open()
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit SET who = 'eve' WHERE seq = 4"))
    assert (await checked(place.url, [])).at == 4
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit SET who = 'user-2' WHERE seq = 4"))
    assert (await checked(place.url, [])).problem is None
    async with database.write() as connection:
        await connection.execute(text("DELETE FROM audit WHERE seq = 3"))
    await database.close()
    found = await checked(place.url, [])
    assert found.problem == "record 3 is missing: 4 stands in its place"


async def test_two_replicas_write_one_chain(tmp_path: Path) -> None:
    place = Place("database", tmp_path)
    await place.write([])
    await asyncio.gather(*(place.write([entry(n) for n in range(50)]) for _ in range(3)))
    found = await checked(place.url, [])
    assert (found.problem, found.records) == (None, 150 + 8)


async def test_old_rows_go_and_the_chain_says_so(tmp_path: Path) -> None:
    place = Place("database", tmp_path)
    now = time.time()
    await place.write([entry(n, at=now) for n in range(20)])
    await age(place, "seq <= 10")
    await place.write([entry(99, at=now)], days=30)
    assert await place.calls() == [f"user-{n}" for n in (*range(9, 20), 99)]
    found = await checked(place.url, [])
    assert (found.problem, found.first) == (None, 11)
    await age(place, "seq > 0")
    await place.write([entry(100)], days=30)
    found = await checked(place.url, [])
    assert (found.problem, await place.calls()) == (None, ["user-100"])


async def test_a_record_of_a_clock_that_was_wrong_takes_no_others_with_it(tmp_path: Path) -> None:
    place = Place("database", tmp_path)
    now = time.time()
    await place.write([entry(n, at=now) for n in range(3)])
    await place.write([entry(3, at=86_400.0)])  # it began before it knew what time it was
    await place.write([entry(4, at=now)], days=30)
    assert await place.calls() == [f"user-{n}" for n in range(5)]
    assert (await checked(place.url, [])).problem is None


async def age(place: Place, rows: str) -> None:
    """Have rows be of 1970."""
    database = Database(str(place.url))
    async with database.write() as connection:
        await connection.execute(text(f"UPDATE audit SET at_ms = 1000 WHERE {rows}"))
    await database.close()


class Failing:
    """A sink that cannot write until it is told that it can."""

    def __init__(self) -> None:
        self.works = True
        self.defect = False
        self.taken: list[Entry] = []

    async def open(self) -> bool:
        return True

    async def write(self, entries: Sequence[Entry]) -> None:
        if self.defect:
            raise RuntimeError("a defect")
        if not self.works:
            raise BackendError("the disk is full")
        self.taken += entries

    async def close(self) -> None:
        pass


async def test_what_cannot_be_written_waits_and_what_must_be_dropped_is_told() -> None:
    sink = Failing()
    async with opened_audit(sink, AuditSettings(waiting=3)) as audit:
        sink.works = False
        for number in range(5):
            audit.note(entry(number))
        assert (len(audit), audit.dropped, audit.full) == (3, 2, True)
        await until(lambda: audit.failing is not None)
        assert audit.state == "the disk is full; 3 records wait, 2 were dropped"
        sink.works = True
        await until(lambda: audit.failing is None and not len(audit))
        assert (audit.state, audit.full, audit.written) == (None, False, 3)
    told = [one for one in sink.taken if one.method == DROPPED]
    assert [one.code for one in told] == ["2"]


async def test_large_arguments_do_not_wait_without_end() -> None:
    sink = Failing()
    async with opened_audit(sink, AuditSettings(waiting_chars=1_000)) as audit:
        sink.works = False
        for number in range(5):
            one = entry(number)
            one.arguments = "x" * 400
            audit.note(one)
        assert (len(audit), audit.dropped, audit.full) == (3, 2, True)
        await until(lambda: audit.failing is not None)
        sink.works = True
        await until(lambda: audit.failing is None and not len(audit))
        assert not audit.full
        audit.note(entry(9))
    assert [one.who for one in sink.taken if one.method == "tools/call"][-1] == "user-9"


async def test_secrets_in_arguments_are_hidden_in_a_thread_before_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where: list[threading.Thread] = []

    def seen(text: str) -> str:
        where.append(threading.current_thread())
        return redacted_json(text)

    monkeypatch.setattr("armory.audit.writer.redacted_json", seen)
    sink = Failing()
    secret = json.dumps({"password": "correct horse " * 20})
    settings = AuditSettings(arguments="full", waiting_chars=3 * len(secret))
    async with opened_audit(sink, settings) as audit:
        sink.works = False
        for number in range(3):
            one = entry(number)
            one.arguments = arguments_of(secret.encode(), audit.arguments)
            audit.note(one)
        await until(lambda: audit.failing is not None)
        assert not audit.full
        sink.works = True
        await until(lambda: audit.failing is None and not len(audit))
        audit.note(entry(9))
    told = [one.arguments for one in sink.taken if one.method == "tools/call"]
    assert told == [*['{"password": "***"}'] * 3, None]
    assert len(where) == 3
    assert threading.main_thread() not in where


async def test_a_defect_of_a_sink_does_not_end_the_audit() -> None:
    sink = Failing()
    async with opened_audit(sink, AuditSettings()) as audit:
        sink.defect = True
        audit.note(entry(1))
        await until(lambda: audit.failing == "RuntimeError: a defect")
        sink.defect = False
        await until(lambda: audit.written == 1)


async def test_a_file_has_one_writer_and_goes_on_where_it_was_moved(tmp_path: Path) -> None:
    place = Place("file", tmp_path)
    async with opened_audit(place.sink(), AuditSettings()) as audit:
        with pytest.raises(ConfigError, match="another process writes its audit"):
            await place.write([])
        audit.note(entry(1))
        await until(lambda: audit.written == 1)
        old = place.file.with_suffix(".1")
        place.file.rename(old)
        audit.note(entry(2))
    assert (await checked(None, [old, place.file])).problem is None
    assert (await checked(None, [place.file])).first == 3


async def test_a_file_that_is_no_audit_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n")
    with pytest.raises(ConfigError, match="is no audit"):
        await FileSink(file).open()
    assert file.read_text() == "my notes\n"
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        await FileSink(folder).open()


KILLED = """
import asyncio, sys
from pathlib import Path
from armory.audit.record import Entry
from armory.audit.settings import AuditSettings
from armory.audit.sinks import DatabaseSink, FileSink
from armory.audit.writer import opened_audit
from armory.storage.database import Database

async def main():
    where = sys.argv[1]
    if where.startswith("sqlite"):
        sink = DatabaseSink(Database(where), 36_500)
    else:
        sink = FileSink(Path(where))
    async with opened_audit(sink, AuditSettings()) as audit:
        for n in range(500):
            audit.note(Entry(1e9, str(n), "c", "/mcp", "tools/call", "ok"))
        while audit.written < 500:
            await asyncio.sleep(0.01)
        print("written", flush=True)
        audit.note(Entry(1e9, "too late", "c", "/mcp", "tools/call", "ok"))
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_process_loses_its_last_moment_and_the_chain_says_so(place: Place) -> None:
    place.file.parent.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, place.url or str(place.file), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = b"\n"
    while line not in (b"", b"written\n"):
        line = await process.stdout.readline()
    assert line
    process.kill()
    await process.wait()
    if place.url is None:
        with place.file.open("ab") as opened:
            opened.write(b'{"at":"half a rec')  # the kill may come in the middle of a write
    await place.write([entry(1)])
    found = await checked(place.url, [place.file])
    assert found.problem is None
    assert len(await place.calls()) in (501, 502)
    if place.url is None:
        assert len(found.unclean) == 1
    else:
        assert list(found.open.values()) == [1]


class Telling:
    """A sink that says when a write is through, in the thread where it was made."""

    def __init__(self, sink: Sink, written: threading.Event) -> None:
        self._sink, self._written = sink, written

    async def open(self) -> bool:
        return await self._sink.open()

    async def write(self, entries: Sequence[Entry]) -> None:
        await self._sink.write(entries)
        self._written.set()

    async def close(self) -> None:
        await self._sink.close()


async def test_a_busy_loop_keeps_nobody_from_writing(place: Place) -> None:
    safe = threading.Event()
    sink = ThreadedSink(Telling(place.own(), safe))
    await sink.open()
    writing = asyncio.ensure_future(sink.write([entry(n) for n in range(450)]))
    await asyncio.sleep(0)
    assert safe.wait(60)  # no turn of this loop is needed
    await writing
    await sink.close()
    assert len(await place.calls()) == 450
