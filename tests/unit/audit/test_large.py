"""Large arguments and results: the event loop waits for none of what is kept of them."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from armory.audit.reading import RecordFilter, records
from armory.audit.record import LARGE_BYTES
from armory.audit.settings import AuditSettings
from armory.audit.writer import opened_audit
from armory.testing.waiting import until
from tests.unit.audit.test_writer import Place, entry

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1, 16 << 20])
@pytest.mark.parametrize("leaves", [False, True])
async def test_large_results_are_hashed_beside_the_loop(
    tmp_path: Path, size: int, *, leaves: bool
) -> None:
    """A hash of 16 MiB takes 30 ms; who leaves meanwhile is recorded with it."""
    place = Place("file", tmp_path)
    arguments, result = b"{}", (b'{"x":"', memoryview(b"y" * (size - 10)), b'"}')
    async with opened_audit(place.sink(), AuditSettings(results="hash", arguments="hash")) as audit:
        noted = audit.note_with(entry(1), arguments, result)
        assert (noted is None) == (size == LARGE_BYTES)
        if noted is not None:
            waiting = asyncio.ensure_future(noted)
            if leaves:
                waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled() == leaves
            await until(lambda: len(audit) + audit.written > 0)
    (told,) = await records(None, [place.file], RecordFilter(who="user-1"), limit=10)
    assert told["result"] == f"sha256:{hashlib.sha256(b''.join(result)).hexdigest()}"
    assert told["arguments"] == f"sha256:{hashlib.sha256(arguments).hexdigest()}"
