from __future__ import annotations

import pytest

from armory.domain.principal import Principal
from armory.feedback.attribution import QueryAttribution

ANN = Principal("ann", user="ann")
BOB = Principal("bob", user="bob")


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def preceding(now: list[float]) -> QueryAttribution:
    return QueryAttribution(follows_s=60, clock=lambda: now[0])


def test_the_latest_query_that_found_the_tool(
    preceding: QueryAttribution, now: list[float]
) -> None:
    preceding.record_query(ANN, ("first",), ["a__x"])
    preceding.record_query(ANN, ("second",), ["a__x", "a__y"])
    preceding.record_query(ANN, ("third",), ["a__z"])
    assert preceding.led_to(ANN, "a__x") == "second"
    assert preceding.led_to(ANN, "a__w") is None
    assert preceding.led_to(ANN, "a__w", searched=True) == "third"
    assert preceding.led_to(BOB, "a__x", searched=True) is None
    now[0] = 61.0
    assert preceding.led_to(ANN, "a__x") is None


def test_sessions_do_not_share_and_rest_counts_for_both(preceding: QueryAttribution) -> None:
    preceding.record_query(ANN, ("here",), ["a__x"], "session 1")
    assert preceding.led_to(ANN, "a__x", "session 2") is None
    assert preceding.led_to(ANN, "a__x") is None
    assert preceding.led_to(ANN, "a__x", "session 1") == "here"
    preceding.record_query(ANN, ("over REST",), ["a__x"])
    assert preceding.led_to(ANN, "a__x", "session 2") == "over REST"


def test_what_is_not_remembered(preceding: QueryAttribution) -> None:
    quiet = Principal("q", scopes=frozenset({"no-learning"}))
    preceding.record_query(quiet, ("private",), ["a__x"])
    preceding.record_query(ANN, ("one", "two"), ["a__x"])
    assert preceding.led_to(quiet, "a__x", searched=True) is None
    assert preceding.led_to(ANN, "a__x", searched=True) is None


def test_of_several_intents_no_earlier_query_is_credited(preceding: QueryAttribution) -> None:
    preceding.record_query(ANN, ("send an email to bob",), ["mail__send", "ops__rotate"])
    preceding.record_query(
        ANN, ("rotate the logs", "list the backups"), ["ops__rotate"], "session 1"
    )
    assert preceding.led_to(ANN, "ops__rotate", "session 1", searched=True) is None
    assert preceding.led_to(ANN, "ops__rotate", "session 1") is None
    assert preceding.led_to(ANN, "mail__send", "session 1") == "send an email to bob"
    preceding.record_query(ANN, ("free some space",), ["ops__clean"], "session 1")
    assert preceding.led_to(ANN, "ops__rotate", "session 1", searched=True) == "free some space"


def test_among_replicas_a_callers_latest_query_may_have_come_to_another() -> None:
    here = QueryAttribution(alone=False)
    here.record_query(ANN, ("free some space",), ["ops__rotate"])
    here.record_query(ANN, ("deploy it",), ["ci__deploy"], "session 1")
    assert here.led_to(ANN, "mail__send", searched=True) is None
    assert here.led_to(ANN, "ops__rotate", searched=True) == "free some space"
    assert here.led_to(ANN, "mail__send", "session 1", searched=True) == "deploy it"
