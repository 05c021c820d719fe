"""Whose the calls are that were given up unanswered, in bounded memory."""

from __future__ import annotations

from armory.upstreams.session.asking.attribution import AbandonedCalls


def test_a_call_counts_for_others_until_it_is_answered() -> None:
    abandoned = AbandonedCalls()
    abandoned.add(1, "ann")
    assert abandoned.of_others("ben")
    assert not abandoned.of_others("ann")
    abandoned.answered("1")
    assert abandoned.of_others("ben")
    assert abandoned.answered(1)
    assert not abandoned.answered(1)
    assert not abandoned.of_others("ben")


def test_beyond_a_thousand_whose_they_are_is_not_forgotten() -> None:
    abandoned = AbandonedCalls()
    for number in range(5_000):
        abandoned.add(number, "ann")
    for number in range(5_000):
        abandoned.answered(number)
    assert abandoned.of_others("ben")
    assert not abandoned.of_others("ann")
