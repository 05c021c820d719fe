"""A million records through the audit's writer: are all of them there, and what does each cost?

`python -m benchmarks.audit [--records N] [--to file|database]`; one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from armory.audit.reading import checked
from armory.audit.record import Entry
from armory.audit.settings import AuditSettings
from armory.audit.sinks import DatabaseSink, FileSink, Sink
from armory.audit.threaded import ThreadedSink
from armory.audit.writer import opened_audit
from armory.runtime.version import armory_version
from armory.storage.database import Database

_BATCH = 1_000


async def measured(count: int, kind: str, folder: Path) -> dict[str, object]:
    """Figures of one run: CPU times in microseconds a record, in the process that also tells."""
    url, file = f"sqlite:///{folder}/armory.db", folder / "audit.jsonl"
    sink: Sink = FileSink(file) if kind == "file" else DatabaseSink(Database(url), 365)
    began, told = time.process_time(), 0.0
    async with opened_audit(ThreadedSink(sink), AuditSettings()) as audit:
        for start in range(0, count, _BATCH):
            before = time.process_time()
            for number in range(start, min(count, start + _BATCH)):
                audit.note(
                    Entry(
                        time.time(),
                        "ada",
                        "token:ci",
                        "/mcp",
                        "tools/call",
                        "ok",
                        f"server__tool_{number % 97}",
                        "server",
                        None,
                        1.234,
                        "ab" * 16,
                    )
                )
            told += time.process_time() - before
            while len(audit) > 50_000:  # noqa: ASYNC110 - a client would wait for its answers
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
        dropped = audit.dropped
    spent = time.process_time() - began
    began = time.process_time()
    found = await checked(None if kind == "file" else url, [file])
    return {
        "armory": armory_version(),
        "to": kind,
        "records": count,
        "in_chain": found.records,
        "own_records": found.records - count,
        "dropped": dropped,
        "whole": found.problem is None,
        "tell_us": round(told / count * 1e6, 2),
        "all_us": round(spent / count * 1e6, 2),
        "verify_us": round((time.process_time() - began) / count * 1e6, 2),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--to", choices=["file", "database"], default="file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="armory-audit-") as folder:
        found = asyncio.run(measured(arguments.records, arguments.to, Path(folder)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
