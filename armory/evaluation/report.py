"""Reports of an evaluation, for programs and for a gate in CI.

Owns: the JSON object, reading gates (`recall@5=0.8`). Never imports retrieval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from armory.errors import ConfigError
from armory.evaluation.metrics import AtThreshold
from armory.evaluation.run import Failure, Result


def to_json(result: Result) -> dict[str, Any]:
    """The report as a JSON object."""
    saved = 1 - result.tokens_returned_mean / result.tokens_all if result.tokens_all else 0.0
    return {
        "tools": result.tools,
        "queries": result.queries,
        **{f"recall@{k}": _round(value) for k, value in result.recall.items()},
        **{f"complete@{k}": _round(value) for k, value in result.complete.items()},
        "ndcg@10": _round(result.ndcg10),
        "mrr": _round(result.mrr),
        "threshold": _at(result.threshold),
        "thresholds": [
            {**_at(at), "refused_share": _round(at.refused_share)} for at in result.thresholds
        ],
        "abstention_accuracy": _round(result.abstention_accuracy),
        "tokens": {
            "all": result.tokens_all,
            "returned_mean": _round(result.tokens_returned_mean, 1),
            "saved_share": _round(saved),
        },
        "latency_ms": {
            "p50": _round(result.latency_p50_ms, 2),
            "p95": _round(result.latency_p95_ms, 2),
        },
        "ece": _round(result.ece),
        "embedder": result.embedder,
        "ranker": result.ranker,
        "asked_ranker": result.asked_ranker,
        "index": result.index,
    }


def failure_json(failure: Failure) -> dict[str, Any]:
    """One failing query as a JSON object."""
    return {
        "id": failure.id,
        "query": failure.query,
        "wanted": list(failure.wanted),
        "refused": failure.refused,
        **{
            key: [
                {"tool": c.tool, "rank": c.rank, "score": _round(c.score), "signals": c.signals}
                for c in found
            ]
            for key, found in (("missed", failure.missed), ("came", failure.came))
        },
    }


def _at(at: AtThreshold) -> dict[str, Any]:
    return {
        "value": at.value,
        "recall": _round(at.recall),
        "precision": _round(at.precision),
        "f1": _round(at.f1),
        "returned_mean": _round(at.returned_mean),
        "empty_share": _round(at.empty_share),
    }


def _round(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


@dataclass(frozen=True, slots=True)
class Gate:
    """The minimum of one figure."""

    figure: str
    least: float


def parse_gate(text: str) -> Gate:
    """`recall@5=0.8`, or a dotted path into the report: `threshold.recall=0.7`.

    Raises:
        ConfigError: the text has another form.
    """
    figure, separator, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        separator = ""
        least = 0.0
    if not separator or not figure or math.isnan(least):  # nothing is below NaN
        raise ConfigError(f"--min {text!r}: expected FIGURE=NUMBER, for example recall@5=0.8")
    return Gate(figure.strip(), least)


def missed_gates(report: Mapping[str, Any], gates: Sequence[Gate]) -> list[str]:
    """One message for every figure below its gate.

    Raises:
        ConfigError: a gate names no figure of the report.
    """
    missed: list[str] = []
    for gate in gates:
        value = _figure(report, gate.figure)
        if value is None:
            missed.append(f"{gate.figure} cannot be judged on this set, wanted {gate.least:g}")
        elif value < gate.least:
            missed.append(f"{gate.figure} is {value:g}, wanted at least {gate.least:g}")
    return missed


def _figure(report: Mapping[str, Any], path: str) -> float | None:
    found: Any = report
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            known = [name for name, value in report.items() if isinstance(value, (int, float))]
            raise ConfigError(
                f"--min {path}: the report has no such figure; it has {', '.join(known)}, and more "
                "within its parts, as threshold.recall"
            )
        found = found[part]
    if found is not None and not isinstance(found, (int, float)):
        raise ConfigError(f"--min {path}: not a number in the report")
    return found
