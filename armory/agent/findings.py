"""The result of an agent run, and its events.

Owns: events, the result, the ranking of the tools that were found. Never imports the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from armory.agent.chunks import Hit
from armory.agent.labels import useful
from armory.domain.results import Match
from armory.domain.tool import ToolRecord

Kind = Literal["thought", "action", "observation", "final_answer", "malformed", "error", "result"]
MAX_DOCUMENTS = 10
"""Passages of documents that an answer quotes; `chunks` names all of them."""
Stop = Literal["final_answer", "iterations", "time", "tokens", "malformed", "model"]


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """A tool that the run found.

    Attributes:
        match: the tool with what retrieval thinks of it (score, probability, signals, reason).
        score: strength of its best chunk in [0, 1], on one scale for both searches.
        label: quality label of that chunk.
        search: which search found it.
        named: whether the Final Answer names it.
        chunks: ids of its chunks, best first.
    """

    match: Match
    score: float
    label: str
    search: str
    named: bool
    chunks: tuple[str, ...]

    @property
    def tool(self) -> ToolRecord:
        """The record in the catalog."""
        return self.match.tool

    @property
    def reason(self) -> str:
        """One readable sentence."""
        named = "named in the agent's answer; " if self.named else ""
        return f"{named}{self.label} match by {self.search} ({self.score:.2f})"


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The answer of one run.

    Attributes:
        question: what was asked.
        answer: the model's Final Answer, "" when it gave none.
        tools: tools found, best first: those that the answer names in its order, then the others
            whose label promises something.
        chunks: every chunk seen, once, best first; its digest is what a rejection set holds.
        trace: every event in order.
        iterations: cycles that ran, 0 to 5.
        stopped: why it ended.
        error: what failed, when `stopped` is "model" or "time".
        prompt_tokens, completion_tokens: over all turns.
        took_ms: wall time in milliseconds.
    """

    question: str
    answer: str
    tools: tuple[ToolFinding, ...]
    chunks: tuple[Hit, ...]
    trace: tuple[Event, ...]
    iterations: int
    stopped: Stop
    error: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    took_ms: float = 0.0

    @property
    def documents(self) -> tuple[Hit, ...]:
        """The chunks that are not tools, best first."""
        return tuple(hit for hit in self.chunks if hit.chunk.tool is None)

    def as_json(self) -> dict[str, Any]:
        """Plain values for REST and `--json`; tool definitions are left to the caller."""
        return {
            "answer": self.answer,
            "stopped": self.stopped,
            "iterations": self.iterations,
            "error": self.error,
            "tools": [
                {"name": f.tool.name, "score": round(f.score, 4), "reason": f.reason}
                for f in self.tools
            ],
            "documents": [
                {
                    "id": h.chunk.id,
                    "digest": h.chunk.digest,
                    "text": h.chunk.text,
                    "score": round(h.strength, 4),
                }
                for h in self.documents[:MAX_DOCUMENTS]
            ],
            "chunks": [
                {
                    "id": h.chunk.id,
                    "digest": h.chunk.digest,
                    "score": round(h.score, 4),
                    "label": h.label,
                    "search": h.search,
                }
                for h in self.chunks
            ],
            "trace": [event.as_json() for event in self.trace],
            "usage": {
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": self.completion_tokens,
            },
            "took_ms": self.took_ms,
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a run, as it streams.

    Attributes:
        kind: what happened.
        text: thought, tool name, observation, answer, or why the run ended.
        iteration: cycle that it belongs to, from 0 before the first action.
        elapsed_ms: since the run began.
        data: particulars by kind: arguments, chunks, repairs.
        result: set on the last event, kind `result`.
    """

    kind: Kind
    text: str
    iteration: int
    elapsed_ms: float
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: AgentResult | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values; the result is left out."""
        return {
            "kind": self.kind,
            "text": self.text,
            "iteration": self.iteration,
            "elapsed_ms": self.elapsed_ms,
            **({"data": dict(self.data)} if self.data else {}),
        }


def tools_of(hits: Sequence[Hit], answer: str, top_k: int) -> tuple[ToolFinding, ...]:
    """The tools behind `hits` (best first), at most `top_k`.

    A tool that the answer names is taken as the model's judgement and comes first, in the order of
    naming. The others follow by strength, unless their label says weak, noise or none.
    """
    best: dict[str, Hit] = {}
    chunks: dict[str, list[str]] = {}
    for hit in hits:
        if hit.match is not None:
            best.setdefault(hit.match.tool.name, hit)
            chunks.setdefault(hit.match.tool.name, []).append(hit.chunk.id)
    places = {name: _place(answer, name) for name in best}
    findings = [
        ToolFinding(
            match=match,
            score=hit.strength,
            label=hit.label,
            search=hit.search,
            named=places[name] >= 0,
            chunks=tuple(chunks[name]),
        )
        for name, hit in best.items()
        if (match := hit.match) is not None and (places[name] >= 0 or useful(hit.label))
    ]
    findings.sort(key=lambda f: (not f.named, places[f.tool.name] if f.named else 0, -f.score))
    return tuple(findings[:top_k])


def _place(answer: str, name: str) -> int:
    """Where a text names a tool as a whole word, or -1."""
    start = answer.find(name)
    while start >= 0:
        after = answer[start + len(name) : start + len(name) + 1]
        before = answer[start - 1 : start] if start else ""
        if not _word(before) and not _word(after):
            return start
        start = answer.find(name, start + 1)
    return -1


def _word(char: str) -> bool:
    return bool(char) and (char.isalnum() or char in "_-")
