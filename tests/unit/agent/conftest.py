"""A small catalog and an engine over it, as plain as can be."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from armory.agent.chunks import Ask, Chunk, Hit
from armory.agent.findings import AgentResult
from armory.agent.labels import Search
from armory.agent.loop import RetrievalAgent
from armory.agent.settings import AgentLimits
from armory.domain.results import Match
from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import ArmoryError, BackendError
from armory.llm.client import ChatClient
from armory.testing.chat import ScriptedChat, Turn


def record(name: str, description: str) -> ToolRecord:
    server, _, original = name.partition("__")
    definition = {
        "name": original,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"branch": {"type": "string", "description": "name of the branch"}},
        },
    }
    return ToolRecord(name, server, original, definition, fingerprint(definition), description)


@dataclass
class Shelf:
    """A source whose hits are written down: (search, query) -> hits; asks are kept."""

    answers: dict[tuple[Search, str], Sequence[Hit]] = field(
        default_factory=dict[tuple[Search, str], Sequence[Hit]]
    )
    asks: list[tuple[Search, Ask]] = field(default_factory=list[tuple[Search, Ask]])
    broken: set[Search] = field(default_factory=set[Search])
    failure: ArmoryError = field(default_factory=lambda: BackendError("the vector store is down"))

    async def search(self, search: Search, ask: Ask) -> Sequence[Hit]:
        self.asks.append((search, ask))
        if search in self.broken:
            raise self.failure
        return self.answers.get((search, ask.query), ())[: ask.top_k]


def tool_hit(name: str, score: float, search: Search = "vector_search", text: str = "") -> Hit:
    tool = record(name, text or f"about {name}")
    match = Match(tool, score=0.5, probability=0.4, raw_score=score)
    return Hit(Chunk(f"{name}#0", text or f"text of {name}", name), search, score, match)


@pytest.fixture
def shelf() -> Shelf:
    """Two searches know something about deploying and notifying."""
    return Shelf(
        {
            ("vector_search", "deploy"): [
                tool_hit("ci__deploy", 0.71),
                tool_hit("ci__rollback", 0.40),
                tool_hit("ci__status", 0.25),
                tool_hit("mail__send", 0.10),
            ],
            ("keyword_search", "notify"): [
                tool_hit("chat__notify", 16.0, "keyword_search"),
                tool_hit("mail__send", 9.0, "keyword_search"),
                tool_hit("ci__status", 0.5, "keyword_search"),
            ],
        }
    )


class Ran:
    """One finished run: its result and what the endpoint saw."""

    def __init__(self, result: AgentResult, server: ScriptedChat) -> None:
        self.result = result
        self.requests = server.requests

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.result.trace]

    def texts(self, kind: str) -> list[str]:
        return [event.text for event in self.result.trace if event.kind == kind]

    def sent(self, turn: int) -> str:
        """The last message of a request."""
        return self.requests[turn]["messages"][-1]["content"]


Run = Callable[..., Awaitable[Ran]]
"""Gives back a finished run of turns over a shelf."""


async def _run(
    shelf: Shelf,
    *turns: str | Turn,
    limits: AgentLimits | None = None,
    timeout_s: float = 5.0,
    **more: Any,
) -> Ran:
    async with (
        ScriptedChat(turns) as server,
        ChatClient(server.url, "small", timeout_s=timeout_s, max_retries=0) as chat,
    ):
        agent = RetrievalAgent(chat, [shelf], limits)
        result = await agent.run("deploy and notify the team", **more)
    return Ran(result, server)


@pytest.fixture
def run() -> Run:
    """Run the agent over a shelf against scripted turns."""
    return _run


def act(action: str, query: str, thought: str = "look", **more: Any) -> str:
    """A turn that searches."""
    given = json.dumps({"query": query, **more})
    return f"Thought: {thought}\nAction: {action}\nAction Input: {given}"


DEPLOY = act("vector_search", "deploy")
NOTIFY = act("keyword_search", "notify", "now the message")
DONE = "Thought: enough\nFinal Answer: chat__notify#0, then ci__deploy#0."
