from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from armory.protocol.session_events import Notified, Renewed, SessionEvent, SessionObservers


class Noted:
    def __init__(self, name: str, notes: list[tuple[str, SessionEvent]]) -> None:
        self.name = name
        self.notes = notes

    def on_session_event(self, event: SessionEvent) -> None:
        self.notes.append((self.name, event))


def test_observers_are_told_in_the_order_in_which_they_came() -> None:
    notes: list[tuple[str, SessionEvent]] = []
    inner, outer, event = SessionObservers(), SessionObservers(), Renewed("up", "")
    first = Noted("first", notes)
    outer.add(first)
    inner.add(outer)
    inner.add(Noted("second", notes))
    inner.on_session_event(event)
    outer.remove(first)
    inner.on_session_event(event)
    assert notes == [("first", event), ("second", event), ("second", event)]


class Failing:
    def on_session_event(self, event: SessionEvent) -> None:
        raise RuntimeError("a defect")


def test_an_observer_that_fails_keeps_the_news_from_nobody() -> None:
    notes: list[tuple[str, SessionEvent]] = []
    observers, event = SessionObservers(), Renewed("up", "")
    observers.add(Failing())
    observers.add(Noted("second", notes))
    with capture_logs() as log:
        observers.on_session_event(event)
    assert notes == [("second", event)]
    assert [line["event"] for line in log] == ["session_observer_failed"]


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("notifications/tools/list_changed", True),
        ("notifications/roots/list_changed", True),
        ("notifications/resources/updated", False),
    ],
)
def test_which_notifications_are_about_lists(method: str, changed: bool) -> None:
    assert Notified("up", "", method, {}).list_changed is changed
