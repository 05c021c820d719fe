"""Builds the retrieval agent and the generator of synthetic queries from the block `agent`.

Owns: opening the chat client and the documents, and closing them again. Never imports a transport.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from armory.agent.catalog import CatalogSource, Engine
from armory.agent.chunks import ChunkSource
from armory.agent.documents import DocumentSource
from armory.agent.loop import RetrievalAgent
from armory.agent.runs import Runs
from armory.agent.settings import AgentLimits
from armory.agent.synthetic import ChatQueryGenerator
from armory.config import Loaded
from armory.config.base import values_for
from armory.llm.client import ChatClient
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.ports import Embedder
from armory.retrieval.registry import VECTORS_FILE


def chat_client(loaded: Loaded) -> ChatClient:
    """The client of the configured chat model; it does not connect yet."""
    agent = loaded.config.agent
    key = agent.api_key.get_secret_value() if agent.api_key else None
    return ChatClient(agent.base_url, agent.model, api_key=key)


async def open_agent(
    loaded: Loaded, engine: Engine, embedder: Embedder | None, stack: AsyncExitStack
) -> tuple[RetrievalAgent, DocumentSource | None]:
    """(the retrieval agent, its documents), opened.

    Args:
        loaded: the configuration.
        engine: the retriever.
        embedder: for the documents; None: their words only.
        stack: closes what is opened here when it unwinds.

    Raises:
        ConfigError: the folder of documents or a parser is missing.
    """
    agent = loaded.config.agent
    sources: list[ChunkSource] = [CatalogSource(engine)]
    documents: DocumentSource | None = None
    if agent.documents:
        kept = DocumentCache(Path(loaded.config.storage.cache_dir) / VECTORS_FILE)
        documents = await DocumentSource.open(loaded.folder / agent.documents, embedder, kept)
        stack.push_async_callback(documents.aclose)
        sources.append(documents)
    chat = await stack.enter_async_context(chat_client(loaded))
    limits = AgentLimits(**values_for(AgentLimits, agent))
    return RetrievalAgent(chat, sources, limits, Runs()), documents


def query_generator(loaded: Loaded, chat: ChatClient) -> ChatQueryGenerator | None:
    """The generator for the strategy `synthetic_queries`; None: templates are used instead."""
    wanted = loaded.config.tool_rag.embedding_strategy == "synthetic_queries"
    return ChatQueryGenerator(chat, chat.model) if wanted and loaded.config.agent.enabled else None
