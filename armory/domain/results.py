"""The results of retrieval, listings and calls.

Owns: `Match` and its `Explanation`, `Selection`, `Listing`, `CallOutcome`, and the text for a
degraded answer. Never imports anything but its domain siblings and the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError

BYTES_PER_TOKEN = 4
"""Rough estimate for definitions as JSON."""


def lacking(*reasons: str | None) -> str | None:
    """Join the reasons why an answer is degraded, leaving out those that are None; None: there is
    none.
    """
    return "; ".join(filter(None, reasons)) or None


class Loss(NamedTuple):
    """What a search has lost; false where it is nothing.

    Attributes:
        why: for administrators: may name an address.
        told: for callers.
    """

    why: str = ""
    told: str = ""

    def __bool__(self) -> bool:
        return bool(self.why)

    def within(self, how: str) -> Loss:
        """The same behind what it means for an answer ("lexical only")."""
        return Loss(f"{how}: {self.why}", f"{how}: {self.told}") if self else self

    @classmethod
    def of(cls, error: Exception, silent: str = "") -> Loss:
        """What an error has lost.

        Args:
            error: an `ArmoryError`, or another one.
            silent: the text where the error has none.
        """
        why = str(error) or silent
        return cls(why, error.told if isinstance(error, ArmoryError) else why)

    @classmethod
    def saying(cls, text: str) -> Loss:
        """What may be told to everybody."""
        return cls(text, text)


NO_LOSS = Loss()


class Explanation(Protocol):
    """Why a tool stands where it stands; may be computed when it is read."""

    @property
    def signals(self) -> Mapping[str, float]:
        """Every number that went into the score, by name."""
        ...

    @property
    def reason(self) -> str:
        """One readable sentence made of the signals that decided."""
        ...


@dataclass(frozen=True, slots=True)
class KnownExplanation:
    """An explanation that is known.

    Attributes:
        signals: as `Explanation.signals`.
        reason: as `Explanation.reason`.
    """

    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """One tool that retrieval considered.

    Attributes:
        tool: the record.
        score: in [0, 1], higher is better; c*P / (c*P + 1 - P), comparable over everything.
        probability: calibrated P(wanted | query, tool), in [0, 1].
        raw_score: the ranker's own formula (cosine, weighted sum, log-odds ...), higher is better.
        explanation: the signals and the reason; a listing never reads them.
    """

    tool: ToolRecord
    score: float
    probability: float
    raw_score: float
    explanation: Explanation = field(default=KnownExplanation(), repr=False, compare=False)

    @property
    def signals(self) -> Mapping[str, float]:
        """Every number that went into the score, by name."""
        return self.explanation.signals

    @property
    def reason(self) -> str:
        """One readable sentence made of the signals that decided."""
        return self.explanation.reason


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer to one query.

    Attributes:
        matches: what a listing returns: at or above the threshold, caps applied, best first.
        ranking: the full ranking before threshold, refusal and caps; only when asked for.
        nearest: the best few whatever they are worth, where nothing matches.
        withheld: exposed name -> why it was not returned ("below threshold", "cap", "refused");
            only when asked for.
        visible: number of tools searched.
        threshold: the threshold that applied.
        refused: whether the query was judged to need no tool.
        degraded: None, or what was lost ("lexical only: ...").
        top_score: best score over the visible set, 0 without tools.
        took_ms: wall time in milliseconds.
    """

    matches: tuple[Match, ...]
    visible: int
    threshold: float
    refused: bool = False
    degraded: str | None = None
    top_score: float = 0.0
    took_ms: float = 0.0
    ranking: tuple[Match, ...] = ()
    nearest: tuple[Match, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])

    def candidates(self, most: int | None = None) -> list[dict[str, Any]]:
        """The full ranking as plain values: scores, signals, and the reason why a tool was left
        out.

        Args:
            most: at most so many of them; None: all.
        """
        shown = {match.tool.name for match in self.matches}
        return [
            {
                "name": match.tool.name,
                "description": match.tool.description,
                "score": round(match.score, 4),
                "probability": round(match.probability, 4),
                "reason": match.reason,
                "raw_score": round(match.raw_score, 4),
                "signals": {name: round(value, 4) for name, value in match.signals.items()},
                "withheld": None
                if match.tool.name in shown
                else self.withheld.get(match.tool.name, "cap"),
            }
            for match in self.ranking[:most]
        ]


@dataclass(frozen=True, slots=True)
class Listing:
    """One answered query, or one list that was cut without a query, for statistics.

    Attributes:
        query: what was asked; None: nothing was.
        visible: number of tools that the caller may see.
        visible_bytes, returned_bytes: size of the definitions of all of them, and of the answer.
        top_score: best score over the visible set, 0 without tools.
        latency_ms: from the request to the finished answer.
        selected: exposed names that were returned.
        degraded: None, or what was lost.
    """

    query: Query | None
    visible: int
    visible_bytes: int
    returned_bytes: int
    top_score: float
    latency_ms: float
    selected: tuple[str, ...] = ()
    degraded: str | None = None


class Exchanged(NamedTuple):
    """The arguments and the result of a call as JSON; both may be truncated.

    Attributes:
        arguments: None: there were none.
        result: the result or the error; None: the call was given up.
    """

    arguments: bytes | None
    result: bytes | None


class CallOutcome(NamedTuple):
    """One finished `tools/call`, for statistics.

    Attributes:
        tool: exposed name.
        ok: whether it went well; None: it was cancelled, which says nothing of the tool.
        latency_ms: from the request to the end.
        query: what led to the call, where that is remembered.
        exchanged: what was said, where anybody keeps that.
        sent: whether it was forwarded; else it was refused here, which says nothing of the tool.
    """

    tool: str
    ok: bool | None
    latency_ms: float
    query: str | None = None
    exchanged: Exchanged | None = None
    sent: bool = True
