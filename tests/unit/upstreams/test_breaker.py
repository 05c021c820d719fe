from __future__ import annotations

from armory.upstreams.breaker import Breaker, Breakers


def test_closed_until_so_many_failures_in_a_row() -> None:
    breaker = Breaker(failures=3, open_s=10)
    for _ in range(2):
        breaker.failed(0)
    assert breaker.state(0) == "closed"
    assert breaker.admits(0)
    breaker.failed(0)
    assert breaker.state(0) == "open"
    assert not breaker.admits(0)


def test_a_success_forgets_the_failures() -> None:
    breaker = Breaker(failures=2, open_s=10)
    breaker.failed(0)
    breaker.succeeded()
    breaker.failed(0)
    assert breaker.state(0) == "closed"


def test_open_says_when_to_come_back() -> None:
    breaker = Breaker(failures=1, open_s=10)
    assert breaker.retry_after_s(5) == 0
    breaker.failed(5)
    assert breaker.retry_after_s(8) == 7
    assert breaker.retry_after_s(99) == 0


def test_half_open_admits_one_trial() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    assert not breaker.admits(9.9)
    assert breaker.state(10) == "half_open"
    assert breaker.admits(10)
    assert not breaker.admits(10)
    assert breaker.state(10) == "half_open"


def test_a_good_trial_closes() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    assert breaker.admits(10)
    breaker.succeeded()
    assert breaker.state(10) == "closed"
    assert breaker.admits(10)
    assert breaker.admits(10)


def test_a_bad_trial_opens_anew_even_below_the_limit() -> None:
    breaker = Breaker(failures=3, open_s=10)
    for _ in range(3):
        breaker.failed(0)
    assert breaker.admits(10)
    breaker.failed(10)
    assert breaker.state(19.9) == "open"
    assert breaker.state(20) == "half_open"


def test_an_abandoned_trial_leaves_room_for_the_next() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    assert breaker.admits(10)
    breaker.abandoned()
    assert breaker.admits(10)


def test_a_late_failure_while_open_extends_nothing_but_the_count() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    breaker.failed(4)
    assert breaker.state(9.9) == "open"
    assert breaker.state(14) == "half_open"


def test_a_session_that_is_gone_says_nothing_of_its_upstream() -> None:
    breakers = Breakers(failures=1, open_s=10)
    breakers.of("ann").failed(0)
    assert breakers.state(99) == "half_open"
    breakers.forget("ann")
    assert breakers.state(99) == "closed"
