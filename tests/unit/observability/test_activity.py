"""The latest calls and queries: which trace they belong to, and a part of them by minute."""

from __future__ import annotations

from armory.domain.principal import ANONYMOUS
from armory.observability.activity import Activity
from armory.observability.operation import CURRENT, Operation


def test_an_entry_names_the_trace_that_it_is_part_of() -> None:
    activity = Activity()
    activity.called(ANONYMOUS, "a__one", ok=True, latency_ms=1.0)
    operation = Operation()
    watched = CURRENT.set(operation)
    activity.called(ANONYMOUS, "a__two", ok=True, latency_ms=1.0)  # watched, and not traced
    operation.trace_id = "0af7651916cd43dd8448eb211c80319c"
    activity.called(ANONYMOUS, "a__three", ok=True, latency_ms=1.0)
    CURRENT.reset(watched)
    assert [entry.trace for entry in activity.latest()] == [operation.trace_id, None, None]


def test_minutes_of_a_part() -> None:
    now = 60.0
    activity = Activity(now=lambda: now)
    activity.called(ANONYMOUS, "a__one", ok=True, latency_ms=3.0)
    activity.called(ANONYMOUS, "b__one", ok=False, latency_ms=9.0)
    now = 200.0
    activity.called(ANONYMOUS, "a__one", ok=False, latency_ms=5.0)
    found = activity.minutes_of(lambda entry: entry.what.startswith("a__"))
    assert [(one.minute, one.calls, one.errors, one.ms) for one in found] == [
        (1, 1, 0, [3.0]),
        (3, 1, 1, [5.0]),
    ]
