"""The chat model of the agent and of synthetic queries, where one is configured.

Owns: loading the library behind them only then: that takes a second, and few use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from armory.config import Loaded

if TYPE_CHECKING:
    from armory.agent.synthetic import ChatQueryGenerator
    from armory.llm.client import ChatClient


def chat_of(loaded: Loaded) -> tuple[ChatClient | None, ChatQueryGenerator | None]:
    """The chat client and the generator of synthetic queries, where they are configured."""
    if not loaded.config.agent.enabled:
        return None, None
    from armory.runtime.blocks.agents import chat_client, query_generator

    chat = chat_client(loaded)
    return chat, query_generator(loaded, chat)
