"""What a run of attacks came to.

Owns: percentiles with and without each attack, gaps between answers, memory, log, upstreams that
were touched, and which bars were missed (`failures`). Never starts anything.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.attack.intervals import Timed, ratio_interval
from benchmarks.load.processes import machine, versions

SETTLE_S = 2.0
"""Left out of each quiet that follows an attack: what was begun in the attack may end in it."""
LINGERS_S = 180.0
"""For so long after its attack an upstream may still be down. Garbage that it has said already is
read as slowly as it is worth; a sign of life, asked for once a minute, has 15 s, and two that are
missed have it connected anew.
"""
MAX_RSS_MB, MAX_LOG_MB = 600, 20
MAX_GAP_MS, MAX_RATIO = 250, 1.5
MACHINE, DRIVER, CORE = "control", "client", "core"
"""What shows the machine alone, the measuring process alone, and the gateway's cores alone: no bar
is set for them.
"""
MIN_ANSWERS = 100
"""Of fewer the p99 is the longest of all: one hiccup of the machine would be the figure."""
Answer = dict[str, Any]


@dataclass(frozen=True)
class Window:
    """One time of an attack, or of quiet (no name)."""

    attack: str
    begin: float
    end: float


def percentile(values: Sequence[float], share: float) -> float:
    """By the nearest rank; 0.0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def longest_gap(times: Iterable[float]) -> float:
    """Seconds between two neighbours."""
    ordered = sorted(times)
    return max((b - a for a, b in itertools.pairwise(ordered)), default=0.0)


def _figures(windows: list[Window], answers: list[Answer], samples: list[Answer]) -> dict[str, Any]:
    """What all windows of one attack, or those of quiet, showed."""
    times: dict[str, list[float]] = defaultdict(list)
    gaps: dict[str, float] = defaultdict(float)
    wrong: list[str] = []
    cpu = rss = waited = 0.0
    for window in windows:
        inside = [a for a in answers if window.begin <= a["due"] < window.end]
        for answer in inside:
            times[answer["kind"]].append(1_000 * (answer["came"] - answer["due"]))
            if "wrong" in answer:
                wrong.append(f"{answer['kind']}: {answer['wrong']}")
        for kind in ("health", "control"):
            came = (a["came"] for a in inside if a["kind"] == kind and "wrong" not in a)
            gaps[kind] = max(gaps[kind], longest_gap(came))
        seen = [s for s in samples if window.begin <= s["t"] < window.end]
        rss = max([rss, *(s["rss_mb"] for s in seen)])
        cpu += seen[-1]["cpu_s"] - seen[0]["cpu_s"] if seen else 0.0
        waited += seen[-1]["waited_s"] - seen[0]["waited_s"] if seen else 0.0
    seconds = sum(window.end - window.begin for window in windows)
    return {
        "seconds": round(seconds, 1),
        "ms": {
            kind: {
                "answers": len(found),
                "p50": round(percentile(found, 0.5), 1),
                "p99": round(percentile(found, 0.99), 1),
                "most": round(max(found), 1),
            }
            for kind, found in sorted(times.items())
        },
        "gap_ms": {kind: round(1_000 * gap) for kind, gap in gaps.items()},
        "wrong": len(wrong),
        "wrong_examples": sorted(set(wrong))[:5],
        "rss_most_mb": rss,
        "cpu_share": round(cpu / seconds, 3) if seconds else 0.0,
        "waited_share": round(waited / seconds, 3) if seconds else 0.0,
    }


def _quiet_around(windows: list[Window], name: str) -> list[Window]:
    """The quiet before and after each time of an attack."""
    found: list[Window] = []
    for place, window in enumerate(windows):
        if window.attack != name:
            continue
        beside = [w for w in _beside(windows, place) if not w.attack]
        found += [Window("", w.begin + SETTLE_S, w.end) for w in beside]
    return found


def _beside(windows: list[Window], place: int) -> list[Window]:
    """The one before and the one after."""
    return [*windows[max(0, place - 1) : place], *windows[place + 1 : place + 2]]


def _compared(under: Answer, quiet: Answer) -> dict[str, float]:
    """p99 of each kind with the attack by that without."""
    return {
        kind: round(figures["p99"] / max(quiet["ms"][kind]["p99"], 0.1), 2)
        for kind, figures in under["ms"].items()
        if kind in quiet["ms"]
    }


def _timed(windows: list[Window], answers: list[Answer]) -> dict[str, list[Timed]]:
    """What was answered within windows, by kind."""
    found: dict[str, list[Timed]] = defaultdict(list)
    for window in windows:
        for answer in answers:
            if window.begin <= answer["due"] < window.end:
                took_ms = 1_000 * (answer["came"] - answer["due"])
                found[answer["kind"]].append((answer["due"], took_ms))
    return found


def _intervals(
    under: list[Window], quiet: list[Window], answers: list[Answer]
) -> dict[str, Sequence[float]]:
    """Within which nine of ten ratios of p99 lie, of each kind that has a bar."""
    attacked, beside = _timed(under, answers), _timed(quiet, answers)
    return {
        kind: ratio_interval(found, beside[kind], 0.99)
        for kind, found in sorted(attacked.items())
        if kind in beside and kind not in (MACHINE, DRIVER, CORE)
    }


def _fewest(under: Answer, quiet: Answer) -> dict[str, int]:
    """Answers of each kind with the attack or without, whichever are fewer."""
    kinds = {*under["ms"], *quiet["ms"]}
    counts = [{kind: of["answers"] for kind, of in f["ms"].items()} for f in (under, quiet)]
    return {kind: min(count.get(kind, 0) for count in counts) for kind in sorted(kinds)}


def _touched(windows: list[Window], samples: list[Answer]) -> dict[str, list[str]]:
    """Upstreams that were down though their own attack had not begun, or was over for long."""
    found: dict[str, set[str]] = defaultdict(set)
    for place, window in enumerate(windows):
        late = [w for w in windows[: place + 1] if w.end > window.begin - LINGERS_S]
        guilty = {before.attack.removeprefix("upstream: ") for before in late}
        if "all at once" not in guilty:
            for sample in samples:
                if window.begin <= sample["t"] < window.end:
                    found[window.attack or "quiet"] |= set(sample.get("down", ())) - guilty
    return {name: sorted(names) for name, names in found.items() if names}


def _missed(attacks: dict[str, Any]) -> list[str]:
    """The bars of gaps and of latency that attacks missed, each with what the machine showed."""
    found: list[str] = []
    for name, figures in attacks.items():
        gaps, ratios = figures["gap_ms"], figures["p99_ratio"]
        if (gap := gaps.get("health", 0)) > MAX_GAP_MS:
            machine_ms = gaps.get(MACHINE, 0)
            said = f"the machine: {machine_ms} ms"
            if CORE in figures["ms"]:
                said += f", the gateway's core: {round(figures['ms'][CORE]['most'])} ms"
            found.append(f"gap of /healthz under {name}: {gap} ms ({said})")
        few = {k: n for k, n in figures["fewest"].items() if n < MIN_ANSWERS}
        if few:
            said = ", ".join(f"{kind} {count}" for kind, count in few.items())
            found.append(f"too few answers for a p99 under {name}: {said}")
        slow = {kind: ratio for kind, ratio in _barred(ratios).items() if ratio > MAX_RATIO}
        if slow:
            between = figures["p99_interval"]
            said = ", ".join(
                f"{kind} {ratio} ({between[kind][0]} to {between[kind][1]})"
                for kind, ratio in slow.items()
            )
            found.append(f"p99 under {name}: {said} (the machine: {ratios.get(MACHINE, 1.0)})")
    return found


def _barred(ratios: dict[str, float]) -> dict[str, float]:
    """Those of the kinds that have a bar."""
    return {kind: r for kind, r in ratios.items() if kind not in (MACHINE, DRIVER, CORE)}


def _by_chance(windows: list[Window], answers: list[Answer]) -> dict[str, Any]:
    """How often quiet itself misses the bar of latency: each time of it, as if it were an attack,
    by the quiet before and after it. What attacks do is what they miss beyond that.

    Returns:
        `missed` of so many `times`, and the greatest `ratio` of any kind that has a bar, in order.
    """
    before = [
        Window(following.attack, quiet.begin + SETTLE_S, quiet.end)
        for quiet, following in itertools.pairwise(windows)
        if not quiet.attack
    ]
    greatest: list[float] = []
    for name in dict.fromkeys(window.attack for window in before):
        places = [place for place, window in enumerate(before) if window.attack == name]
        beside = [one for place in places for one in _beside(before, place)]
        under = _figures([before[place] for place in places], answers, [])
        ratios = _barred(_compared(under, _figures(beside, answers, [])))
        greatest.append(max(ratios.values(), default=0.0))
    missed = sum(ratio > MAX_RATIO for ratio in greatest)
    return {"missed": missed, "times": len(greatest), "ratio": sorted(greatest)}


def long_turns(windows: list[Window], noted: dict[str, Any]) -> dict[str, Any]:
    """The longest of what `turns` noted, for each attack and for quiet, in ms of CPU time.

    Returns:
        Name → `turn` (the loop's thread in one callback), `round` (in all that was ready), `late`
        (the whole process while a timer of the loop was late) and `collection`, each the longest
        with what was seen in it.
    """
    found: dict[str, Any] = defaultdict(dict)
    for kind, key in (
        ("turn", "turns"),
        ("round", "rounds"),
        ("late", "late"),
        ("collection", "collections"),
    ):
        for one in noted.get(key, ()):
            for window in windows:
                if window.begin <= one["t"] < window.end:
                    of = found[window.attack or "quiet"]
                    if one["cpu_ms"] > of.get(kind, one)["cpu_ms"] or kind not in of:
                        of[kind] = one
    return found


def report(
    windows: list[Window],
    answers: list[Answer],
    samples: list[Answer],
    log: str,
    good: tuple[str, ...],
) -> dict[str, Any]:
    """The JSON of a run.

    Args:
        windows: in order.
        answers: to the good clients.
        samples: of the gateway.
        log: what it wrote.
        good: upstreams that take no part in any attack.
    """
    quiet = [w for w in windows if not w.attack]
    settled = [Window("", w.begin + SETTLE_S, w.end) for w in quiet]
    attacks: dict[str, Any] = {}
    for name in dict.fromkeys(w.attack for w in windows if w.attack):
        times, around = [w for w in windows if w.attack == name], _quiet_around(windows, name)
        under = _figures(times, answers, samples)
        beside = _figures(around, answers, samples)
        under["p99_ratio"] = _compared(under, beside)
        under["p99_interval"] = _intervals(times, around, answers)
        under["p99_quiet"] = {kind: of["p99"] for kind, of in beside["ms"].items()}
        under["fewest"] = _fewest(under, beside)
        under["waited_quiet"] = beside["waited_share"]
        under["gap_quiet_ms"] = beside["gap_ms"]
        attacks[name] = under
    without = _figures(settled, answers, samples)
    quiet_rss = [
        [s["rss_mb"] for s in samples if w.begin <= s["t"] < w.end] or [0.0] for w in settled
    ]
    down = {name for s in samples for name in s.get("down", ()) if name in good}
    tracebacks = len(re.findall(r"Traceback \(most recent", log))
    most = max((s["rss_mb"] for s in samples), default=0.0)
    summary = {
        "answers": sum(f["answers"] for f in without["ms"].values())
        + sum(f["answers"] for a in attacks.values() for f in a["ms"].values()),
        "wrong_quiet": without["wrong"],
        "wrong_attacked": sum(a["wrong"] for a in attacks.values()),
        "rss_most_mb": most,
        "rss_quiet_mb": [round(min(values), 1) for values in quiet_rss],
        "log_mb": round(len(log) / 1e6, 2),
        "tracebacks": tracebacks,
        "good_upstreams_down": sorted(down),
        "touched": _touched(windows, samples),
        "p99_beyond": sorted(
            name
            for name, figures in attacks.items()
            if any(low > MAX_RATIO for low, _ in figures["p99_interval"].values())
        ),
        "gap_most_ms": max((a["gap_ms"]["health"] for a in attacks.values()), default=0),
        "tasks": [samples[0].get("tasks"), samples[-1].get("tasks")] if samples else [],
        "fds": [samples[0].get("fds"), samples[-1].get("fds")] if samples else [],
    }
    failures = [
        *(["a good client got a wrong answer"] if summary["wrong_attacked"] else []),
        *(["memory"] if most > MAX_RSS_MB else []),
        *(["log"] if len(log) > 1e6 * MAX_LOG_MB else []),
        *(["a traceback"] if tracebacks else []),
        *(["a good upstream went down"] if down else []),
        *_missed(attacks),
    ]
    return {
        "versions": versions(), "machine": machine(), "failures": failures, "summary": summary,
        "by_chance": _by_chance(windows, answers), "quiet": without, "attacks": attacks,
    }  # fmt: skip
