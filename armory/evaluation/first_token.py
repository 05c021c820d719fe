"""Measures the time to a model's first token, with every tool definition in the prompt and with
those that a query selects.

Owns: the measuring. Never imports the gateway or a chat library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.evaluation.context import FirstTokens, Search, compact, definition_of
from armory.llm.client import FirstToken, Message
from armory.llm.errors import ChatError


class Prober(Protocol):
    """Measures the time to a model's first token (`llm.client.ChatClient`)."""

    async def time_to_first_token(self, messages: Sequence[Message]) -> FirstToken:
        """Send a conversation, stop at the first piece of the answer."""
        ...


async def first_tokens(
    prober: Prober,
    model: str,
    tools: Sequence[ToolRecord],
    queries: Sequence[str],
    search: Search,
    *,
    pinned: frozenset[str] = frozenset(),
    on_progress: Callable[[int, int], None] | None = None,
) -> FirstTokens:
    """Measure the time to the first token with the full list and with the selection in the prompt.

    The two take turns, so that a warm cache or a busy machine favours neither. An endpoint that
    fails ends the measuring with what there is, and `problem` says why.
    """
    shown_as = {tool.name: definition_of(tool) for tool in tools}
    every = compact(list(shown_as.values()))
    full: list[FirstToken] = []
    selected: list[FirstToken] = []
    problem = ""
    for done, query in enumerate(queries, start=1):
        selection = await search(Query((query,)))
        names = {match.tool.name for match in selection.matches} | pinned
        some = compact([shown for name, shown in shown_as.items() if name in names])
        try:
            both = [
                await prober.time_to_first_token(_prompt(listed, query)) for listed in (every, some)
            ]
        except ChatError as error:
            problem = error.message
            break
        full.append(both[0])
        selected.append(both[1])
        if on_progress is not None:
            on_progress(done, len(queries))
    return FirstTokens(model, tuple(full), tuple(selected), problem)


def _prompt(listed: str, query: str) -> list[Message]:
    return [
        {"role": "system", "content": f"You can call these tools:\n{listed}"},
        {"role": "user", "content": query},
    ]
