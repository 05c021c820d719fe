"""Verifies a chain of records: finds changed, missing and lost ones.

Owns: the check of a chain, and what it finds. Pure; never does I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from armory.audit.record import CLOSED, DROPPED, GENESIS, OPENED, PRUNED, UNCLEAN, parsed

_sorted = msgspec.json.Encoder(order="sorted").encode


@dataclass(slots=True)
class Verdict:
    """The result of verifying a chain.

    Attributes:
        records: records that were read, the audit's own included.
        first, last: `seq` of the first and the last good one; 0: there is none.
        problem: what is wrong with the first record that is not good; None: nothing.
        at: `seq` of that record, or where it should be; None: nothing is wrong.
        unclean: `seq` of each record after which a process ended without closing the audit, so that
            up to its last second may be missing.
        dropped: records that were dropped, and whose number was recorded.
        open: processes that opened the audit and did not close it, with the `seq` of where they
            did: they run still, or were killed and may have lost their last second.
    """

    records: int = 0
    first: int = 0
    last: int = 0
    problem: str | None = None
    at: int | None = None
    unclean: list[int] = field(default_factory=list[int])
    dropped: int = 0
    open: dict[str, int] = field(default_factory=dict[str, int])


class Check:
    """Verifies a chain up to the first record that was changed or is missing.

    Attributes:
        found: what was found so far.
    """

    def __init__(self) -> None:
        self.found = Verdict()
        self._expected, self._before = 0, ""
        self._pruned = 0

    def add(self, line: bytes | str) -> bool:
        """Verify the next record, one line of JSON; False: it is wrong, and the rest proves
        nothing.
        """
        found = self.found
        found.records += 1
        record = parsed(line)
        wrong = _wrong(record, self._expected, self._before)
        if wrong is not None or record is None:
            found.problem, found.at = wrong, self._expected or found.records
            return False
        seq, digest = record["seq"], record["hash"]
        assert isinstance(seq, int)
        found.first = found.first or seq
        if record["method"] == PRUNED:
            self._pruned = int(str(record["code"] or 0))
        _note(found, record, seq)
        found.last, self._expected, self._before = seq, seq + 1, str(digest)
        return True

    def ended(self, *, whole: bool) -> Verdict:
        """The result.

        Args:
            whole: whether what was before the first record must have been deleted because of its
                age; else other files may have it.
        """
        found = self.found
        if found.problem is None and whole and found.first > 1 and self._pruned != found.first:
            found.problem = (
                f"the chain begins with record {found.first}, and no record says that those before "
                "it were deleted because of their age"
            )
            found.at = 1
        return found


def verify(lines: Iterable[bytes | str], *, whole: bool = True) -> Verdict:
    """Verify a chain.

    Args:
        lines: the records in order, each one line of JSON.
        whole: as for `Check.ended`.
    """
    check = Check()
    for line in lines:
        if not check.add(line):
            break
    return check.ended(whole=whole)


def _note(found: Verdict, record: dict[str, object], seq: int) -> None:
    method, process = record["method"], str(record["credential"])
    if method == OPENED:
        if record["outcome"] == UNCLEAN:
            found.unclean.append(seq - 1)
            found.open.clear()  # a file has one writer at a time
        found.open[process] = seq
    elif method == CLOSED:
        found.open.pop(process, None)
    elif method == DROPPED:
        found.dropped += int(str(record["code"] or 0))


def _wrong(record: dict[str, object] | None, expected: int, before: str) -> str | None:
    if record is None:
        return "it is no JSON object: cut or overwritten"
    digest, seq = record.pop("hash", None), record.get("seq")
    if not isinstance(digest, str) or not isinstance(seq, int) or "method" not in record:
        return "it has no hash, seq or method"
    if hashlib.sha256(_sorted(record)).hexdigest() != digest:
        return f"record {seq} was changed: its hash does not fit it"
    record["hash"] = digest
    if expected and seq != expected:
        return f"record {expected} is missing: {seq} stands in its place"
    if expected and record["prev"] != before:
        return f"record {seq} does not follow the one before it, which was replaced"
    if seq == 1 and record["prev"] != GENESIS:
        return "the first record names one before it"
    return None
