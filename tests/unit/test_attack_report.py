"""Which bars a run of attacks missed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.attack.report import Window, report

QUIET, ATTACK = Window("", 0.0, 10.0), Window("client: depth", 10.0, 20.0)


def _answers(begin: float, took: float, *, skipped: float = 0.0) -> list[dict[str, Any]]:
    """Twenty a second for ten seconds, of all kinds; `skipped` seconds of /healthz in between."""
    found: list[dict[str, Any]] = []
    for place in range(200):
        due = begin + place / 20
        found.append({"kind": "client", "due": due, "came": due})
        found.append({"kind": "control", "due": due, "came": due + 0.001})
        if not begin + 5 <= due < begin + 5 + skipped:
            found.append({"kind": "health", "due": due, "came": due + took})
    return found


def _failures(*answers: list[dict[str, Any]]) -> list[str]:
    every = [answer for some in answers for answer in some]
    return report([QUIET, ATTACK], every, [], "", ())["failures"]


def test_what_is_as_fast_as_in_quiet_misses_nothing() -> None:
    assert _failures(_answers(0, 0.002), _answers(10, 0.0028)) == []


def test_a_p99_beyond_one_and_a_half_times_is_named() -> None:
    (missed,) = _failures(_answers(0, 0.002), _answers(10, 0.004))
    assert missed == "p99 under client: depth: health 2.0 (2.0 to 2.0) (the machine: 1.0)"


def test_one_stall_may_be_chance_and_many_are_not() -> None:
    stalls = {1: False, 8: True}
    for count, certain in stalls.items():
        late = [
            {**answer, "came": answer["due"] + 0.01}
            if answer["kind"] == "health"
            and answer["due"] % 1 < 0.15
            and answer["due"] < 10 + count
            else answer
            for answer in _answers(10, 0.002)
        ]
        every = [*_answers(0, 0.002), *late]
        found = report([QUIET, ATTACK], every, [], "", ())
        assert found["attacks"]["client: depth"]["p99_ratio"]["health"] == 5.0
        assert found["summary"]["p99_beyond"] == (["client: depth"] if certain else [])


def test_how_often_quiet_itself_misses_the_bar_is_told() -> None:
    windows: list[Window] = []
    for begin, name in ((0.0, "a"), (20.0, "b"), (40.0, "c"), (60.0, "d")):
        windows += Window("", begin, begin + 10), Window(name, begin + 10, begin + 20)
    took = {0: 0.002, 20: 0.002, 40: 0.004, 60: 0.002}
    answers = [answer for begin, lasted in took.items() for answer in _answers(begin, lasted)]
    found = report(windows, answers, [], "", ())["by_chance"]
    assert (found["missed"], found["times"], found["ratio"][-1]) == (1, 4, 2.0)


def test_a_gap_of_health_is_named() -> None:
    (missed,) = _failures(_answers(0, 0.002), _answers(10, 0.002, skipped=0.5))
    assert missed == "gap of /healthz under client: depth: 550 ms (the machine: 50 ms)"


def test_a_gap_says_whether_the_core_itself_stood_still() -> None:
    late = {"kind": "core", "due": 15.0, "came": 15.6}
    core = [{"kind": "core", "due": place / 20, "came": place / 20} for place in range(400)]
    answers = _answers(0, 0.002), _answers(10, 0.002, skipped=0.5), core, [late]
    (missed,) = _failures(*answers)
    assert missed.endswith("550 ms (the machine: 50 ms, the gateway's core: 600 ms)")


def test_too_few_answers_are_no_p99() -> None:
    seldom = [
        {"kind": "search", "due": place / 8, "came": place / 8 + 0.002} for place in range(160)
    ]
    (missed,) = _failures(_answers(0, 0.002), _answers(10, 0.002), seldom)
    assert missed == "too few answers for a p99 under client: depth: search 64"


def test_quiet_that_is_too_short_to_settle_is_no_measure_either() -> None:
    short = [a for a in _answers(0, 0.002) if a["due"] >= 7]
    windows = [Window("", 7.0, 10.0), ATTACK]
    (missed,) = report(windows, [*short, *_answers(10, 0.004)], [], "", ())["failures"][:1]
    assert missed.startswith("too few answers for a p99 under client: depth: client 20")


def test_how_late_the_measuring_process_is_shows_and_is_no_failure() -> None:
    late = [
        {**a, "came": a["due"] + 0.01} if a["kind"] == "client" else a for a in _answers(10, 0.002)
    ]
    windows = [QUIET, ATTACK]
    made = report(windows, [*_answers(0, 0.002), *late], [], "", ())
    assert made["failures"] == []
    assert made["attacks"]["client: depth"]["p99_ratio"]["client"] > 1.5


@pytest.mark.parametrize(("after_s", "touched"), [(150, {}), (240, {"quiet": ["noisy"]})])
def test_an_upstream_may_be_down_until_it_has_missed_two_signs_of_life(
    after_s: int, touched: dict[str, list[str]]
) -> None:
    windows = [Window("upstream: noisy", 0.0, 12.0)]
    windows += [Window("", begin, begin + 12.0) for begin in range(12, 300, 12)]
    down = {"t": 12.0 + after_s, "down": ["noisy"], "rss_mb": 1.0, "cpu_s": 0.0, "waited_s": 0.0}
    assert report(windows, [], [down], "", ())["summary"]["touched"] == touched
