"""The latest calls and queries: which trace they belong to, a part of them over a day, and what is
kept of what they said.
"""

from __future__ import annotations

import pytest

from armory.domain.principal import ANONYMOUS, Principal
from armory.domain.query import Query
from armory.domain.results import CallOutcome, Exchanged, Listing
from armory.observability import activity as activity_module
from armory.observability.activity import CONTENTS, KEPT, Activity, Contents
from armory.observability.history import DAY_S, PART_S, Parts, Tally
from armory.observability.operation import CURRENT, Operation
from armory.observability.settings import ActivitySettings


def test_an_entry_names_the_trace_that_it_is_part_of() -> None:
    activity = Activity()
    activity.called(ANONYMOUS, CallOutcome("a__one", ok=True, latency_ms=1.0))
    operation = Operation()
    watched = CURRENT.set(operation)
    activity.called(
        ANONYMOUS, CallOutcome("a__two", ok=True, latency_ms=1.0)
    )  # watched, and not traced
    operation.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    activity.called(ANONYMOUS, CallOutcome("a__three", ok=True, latency_ms=1.0))
    CURRENT.reset(watched)
    assert [entry.trace for entry in activity.latest()] == [operation.trace_id, None, None]


def test_a_part_is_counted_over_the_whole_day_whatever_else_there_was() -> None:
    now = 3_000.0
    activity = Activity(now=lambda: now)
    activity.called(ANONYMOUS, CallOutcome("a__one", ok=True, latency_ms=3.0))
    activity.called(ANONYMOUS, CallOutcome("b__one", ok=False, latency_ms=9.0))
    now += 400.0
    activity.called(ANONYMOUS, CallOutcome("a__one", ok=False, latency_ms=5.0))
    for _ in range(KEPT):
        activity.called(ANONYMOUS, CallOutcome("c__one", ok=True, latency_ms=1.0))
    assert all(entry.what == "c__one" for entry in activity.latest())  # the others are gone from it

    def of_a(_: str, tool: str) -> bool:
        return tool.startswith("a__")

    since, found = activity.parts(of_a)
    assert since == 3_000.0
    assert [(at, one.calls, one.errors, list(one.ms)) for at, one in found] == [
        (3_000, 1, 0, [3.0]),
        (3_300, 1, 1, [5.0]),
    ]
    now += DAY_S
    since, found = activity.parts(of_a)
    assert (since, [at for at, _ in found]) == (now - DAY_S, [3_300])
    activity.called(ANONYMOUS, CallOutcome("d__one", ok=True, latency_ms=1.0))
    now += 3_600.0
    activity.called(ANONYMOUS, CallOutcome("d__one", ok=True, latency_ms=1.0))
    assert activity.parts(of_a)[1] == []


def test_parts_beyond_what_is_kept_shorten_the_day_and_say_so() -> None:
    parts = Parts(most=3)
    for now, tool in ((0.0, "a"), (0.0, "b"), (400.0, "a"), (800.0, "a")):
        parts.calls(now, "ann", tool, 0, [1.0])
    assert parts.whole_from == PART_S
    assert [at for at, _ in parts.since(-1e9, lambda who, tool: True)] == [300, 600]
    for tool in "bcd":
        parts.calls(900.0, "ann", tool, 0, [1.0])
    assert parts.whole_from == 900
    parts.calls(901.0, "ann", "e", 0, [1.0])  # more than is kept within one stretch
    assert parts.whole_from == 901.0
    assert sum(one.calls for _, one in parts.since(0.0, lambda who, tool: True)) == 1


def test_times_are_a_sample_of_the_latest() -> None:
    tally = Tally()
    tally.count_calls(1, [0.0, 1.0, 2.0], 4)
    tally.count_calls(0, [3.0, 4.0], 4)
    assert (tally.calls, tally.errors, sorted(tally.ms)) == (5, 1, [1.0, 2.0, 3.0, 4.0])
    tally.count_calls(0, [float(ms) for ms in range(5, 15)], 4)
    assert (tally.calls, sorted(tally.ms)) == (15, [11.0, 12.0, 13.0, 14.0])
    tally.count_calls(0, [15.0], 4)
    assert sorted(tally.ms) == [12.0, 13.0, 14.0, 15.0]


SECRET = "sk-live-0123456789abcdef"


def kept(exchanged: Exchanged, **settings: bool) -> tuple[str, Contents] | None:
    activity = Activity(lambda text: text.replace("Ann", "<name>"), ActivitySettings(**settings))
    activity.called(ANONYMOUS, CallOutcome("a__one", ok=True, latency_ms=1.0, exchanged=exchanged))
    assert activity.contents(0) is None
    assert activity.contents(2) is None
    return activity.contents(activity.last)


def test_contents_are_kept_where_they_are_switched_on_without_secrets() -> None:
    said = Exchanged(
        b'{"password": "short", "note": "for Ann: %s"}' % SECRET.encode(), b'{"content": []}'
    )
    assert kept(said) == (ANONYMOUS.owner, Contents(None, None))
    arguments = '{"password":"***","note":"for <name>: ***"}'
    assert kept(said, arguments=True) == (ANONYMOUS.owner, Contents(arguments, None))
    assert kept(said, results=True) == (ANONYMOUS.owner, Contents(None, '{"content":[]}'))


def test_what_is_cut_in_the_middle_shows_no_secret_either() -> None:
    said = b'{"password": "correct horse", "content": "' + b"x" * 9_000
    found = kept(Exchanged(said[:8_192], said[:8_192]), arguments=True, results=True)
    assert found is not None
    for text in (found[1].arguments, found[1].result):
        assert text is not None
        assert text.startswith('{"password": "***", "content": "xxx')


def test_contents_are_cut_and_need_be_no_json() -> None:
    text = "x" * 9_000
    found = kept(Exchanged(None, f'{{"token": "{SECRET}", "text": "{text}'.encode()), results=True)
    assert found is not None
    assert found[1].arguments is None
    assert found[1].result is not None
    assert len(found[1].result) == CONTENTS + 1
    assert SECRET not in found[1].result
    found = kept(Exchanged(b"\xff" + b"[" * 5_000, None), arguments=True, results=True)
    assert found is not None
    assert found[1].result is None


def test_a_call_is_there_at_once_however_it_is_asked_for() -> None:
    def called() -> Activity:
        activity = Activity(now=lambda: 3_000.0)
        activity.called(ANONYMOUS, CallOutcome("a__one", ok=True, latency_ms=3.0))
        return activity

    (entry,) = called().latest()
    assert called().last == entry.seq
    assert [tally.calls for _, tally in called().minutes()] == [1]
    assert [tally.calls for _, tally in called().parts(lambda _who, _tool: True)[1]] == [1]
    assert called().callers() == [ANONYMOUS.owner]


def test_numbers_go_on_after_a_restart() -> None:
    before = Activity(now=lambda: 3_000.0)
    for _ in range(500):
        before.called(ANONYMOUS, CallOutcome("a__one", ok=True, latency_ms=3.0))
    after = Activity(now=lambda: 3_001.0)
    assert after.last > before.last
    after.called(ANONYMOUS, CallOutcome("a__two", ok=True, latency_ms=3.0))
    assert [entry.what for entry in after.latest(after=before.last)] == ["a__two"]
    assert after.contents(before.last) is None


@pytest.mark.anyio
async def test_what_a_deleted_user_did_gives_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_module, "KEPT_BYTES", 100_000)
    activity = Activity()
    ann, bob = (Principal(f"user:{name}", name, frozenset(), "api_key") for name in ("ann", "bob"))
    listing = Listing(Query(("x" * 8_000,)), 1, 1, 1, 1.0, 1.0, ())
    for _ in range(20):
        activity.listed(ann, listing)
    full = len([*activity.latest()])
    await activity.forget(ann.owner)
    for _ in range(20):
        activity.listed(bob, listing)
    assert [entry.owner for entry in activity.latest()] == [bob.owner] * full
    assert 1 < full < 20
