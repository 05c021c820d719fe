"""The audit's chain: what was changed, moved or taken out shows."""

from __future__ import annotations

import hashlib
import json

import pytest

from armory.audit.checking import verify
from armory.audit.record import CLOSED, DROPPED, OPENED, PRUNED, UNCLEAN, Chain, Entry, parsed
from armory.audit.sinks import own_entry


def entry(number: int) -> Entry:
    return Entry(
        1_790_000_000.5 + number, "ada", "token:ada", "/mcp", "tools/call", "ok", tool="a__b"
    )


def chained(count: int, *before: Entry) -> list[bytes]:
    chain = Chain()
    return [chain.add(one) for one in (*before, *(entry(n) for n in range(count)))]


def test_a_whole_chain_is_whole() -> None:
    found = verify(chained(5))
    assert (found.problem, found.records, found.first, found.last) == (None, 5, 1, 5)


def test_a_record_has_the_documented_members_and_hash() -> None:
    record = json.loads(chained(1)[0])
    digest = record.pop("hash")
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == digest
    assert record == {
        "seq": 1,
        "prev": "0" * 64,
        "at": "2026-09-21T14:13:20.500Z",
        "who": "ada",
        "credential": "token:ada",
        "endpoint": "/mcp",
        "method": "tools/call",
        "tool": "a__b",
        "upstream": None,
        "outcome": "ok",
        "code": None,
        "ms": 0.0,
        "trace_id": None,
    }


@pytest.mark.parametrize("ms", [0.0, 0.001, 0.00005, 1.5, 123456789.123, 1e15])
@pytest.mark.parametrize("who", ["ada", 'q"\\\n', "é\u2028🙂", "\u007f"])
def test_the_check_reads_what_was_written(ms: float, who: str) -> None:
    chain = Chain()
    lines = [chain.add(Entry(1.0, who, "c", "/", "m", "ok", ms=ms, arguments='{"a":1.50}'))]
    assert verify(lines).problem is None


@pytest.mark.parametrize("member", ["who", "at", "ms", "seq", "prev", "hash", "tool", "arguments"])
def test_a_changed_member_shows(member: str) -> None:
    lines = chained(5)
    record = json.loads(lines[2])
    record[member] = 9 if member in ("ms", "seq") else "x"
    lines[2] = json.dumps(record).encode()
    found = verify(lines)
    assert found.problem is not None
    assert (found.at, found.last) == (3, 2)


def test_a_record_changed_with_its_hash_shows_at_the_next() -> None:
    lines = chained(5)
    record = json.loads(lines[2]) | {"who": "eve"}
    del record["hash"]
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["hash"] = hashlib.sha256(text.encode()).hexdigest()
    lines[2] = json.dumps(record).encode()
    found = verify(lines)
    assert found.at == 4
    assert found.problem == "record 4 does not follow the one before it, which was replaced"


def test_a_missing_record_shows() -> None:
    lines = chained(5)
    del lines[2]
    found = verify(lines)
    assert found.problem == "record 3 is missing: 4 stands in its place"
    lines = chained(5)
    lines[1], lines[2] = lines[2], lines[1]
    assert verify(lines).at == 2
    assert verify([*chained(2), b"{half"]).problem == "it is no JSON object: cut or overwritten"


def test_the_beginning_may_be_missing_only_where_a_record_says_so() -> None:
    lines = chained(5)[2:]
    assert verify(lines).at == 1
    assert verify(lines, whole=False).problem is None
    lines = [*chained(5, own_entry(OPENED, "a"))]
    chain = Chain(6, str((parsed(lines[-1]) or {})["hash"]))
    lines.append(chain.add(own_entry(PRUNED, "retention", code="4")))
    assert verify(lines[3:]).problem is None
    assert verify(lines[4:]).at == 1


def test_what_ended_without_closing_is_told() -> None:
    opened = own_entry(OPENED, "a")
    found = verify(chained(1, opened, own_entry(CLOSED, "a"), own_entry(OPENED, "b")))
    assert found.open == {"internal:b": 3}
    found = verify(chained(1, opened, own_entry(OPENED, "b", outcome=UNCLEAN)))
    assert (found.unclean, found.open) == ([1], {"internal:b": 2})
    assert verify(chained(1, own_entry(DROPPED, "a", code="7"))).dropped == 7
