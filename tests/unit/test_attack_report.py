"""Which bars a run of attacks missed."""

from __future__ import annotations

from typing import Any

from benchmarks.attack.report import Window, report

QUIET, ATTACK = Window("", 0.0, 10.0), Window("client: depth", 10.0, 20.0)


def _answers(begin: float, took: float, *, skipped: float = 0.0) -> list[dict[str, Any]]:
    """Ten a second for ten seconds, of both kinds; `skipped` seconds of /healthz in the middle."""
    found: list[dict[str, Any]] = []
    for place in range(100):
        due = begin + place / 10
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
    assert missed == "p99 under client: depth: health 2.0 (the machine: 1.0)"


def test_a_gap_of_health_is_named() -> None:
    (missed,) = _failures(_answers(0, 0.002), _answers(10, 0.002, skipped=0.5))
    assert missed == "gap of /healthz under client: depth: 600 ms (the machine: 100 ms)"
