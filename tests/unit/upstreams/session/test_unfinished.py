"""Whose the calls are that were given up unanswered, in bounded memory."""

from __future__ import annotations

from armory.upstreams.session.pending import Unfinished


def test_a_call_counts_for_others_until_it_is_answered() -> None:
    unfinished = Unfinished()
    unfinished.add(1, "ann")
    assert unfinished.of_others("ben")
    assert not unfinished.of_others("ann")
    unfinished.answered("1")
    assert unfinished.of_others("ben")
    assert unfinished.answered(1)
    assert not unfinished.answered(1)
    assert not unfinished.of_others("ben")


def test_beyond_a_thousand_whose_they_are_is_not_forgotten() -> None:
    unfinished = Unfinished()
    for number in range(5_000):
        unfinished.add(number, "ann")
    for number in range(5_000):
        unfinished.answered(number)
    assert unfinished.of_others("ben")
    assert not unfinished.of_others("ann")
