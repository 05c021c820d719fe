"""Optional dependencies (extras) that a configuration needs and that are not installed.

Owns: the table of keys, modules and extras. Imports none of the parts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from armory.config import Loaded
from armory.config.base import values_for
from armory.config.embedding import provider
from armory.errors import ConfigError
from armory.telemetry.export import enabled_signals
from armory.telemetry.settings import OtelSettings


def absent_extras(loaded: Loaded) -> list[ConfigError]:
    """One error for each extra that is needed and not installed."""
    absent = [
        ConfigError(f'{what} needs an extra: pip install "armory-mcp-gateway[{extra}]"', path=path)
        for path, what, module, extra in _needed(loaded)
        if importlib.util.find_spec(module) is None
    ]
    if loaded.config.server.event_loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        text = "uvloop is not installed (PyPy has none); with 'auto' Python's own loop stands in"
        absent.insert(0, ConfigError(text, path="server.event_loop"))
    return absent


def _needed(loaded: Loaded) -> Iterator[tuple[str, str, str, str]]:
    """(path in the configuration, the feature, its module, its extra)."""
    rag, storage = loaded.config.tool_rag, loaded.config.storage
    if rag.enabled:
        if rag.index == "faiss":
            yield "tool_rag.index", "'faiss'", "faiss", "faiss"
        if provider(loaded.config) == "fastembed":
            yield "tool_rag.embedding_model", repr(rag.embedding_model), "fastembed", "local"
        if rag.rerank is not None:
            yield "tool_rag.rerank", "a cross-encoder", "fastembed", "rerank"
    if storage.redis is not None:
        yield "storage.redis", "Redis", "redis", "redis"
    if storage.url.startswith("postgres"):
        yield "storage.url", "Postgres", "asyncpg", "postgres"
    otel = loaded.config.observability.otel
    if any(enabled_signals(OtelSettings(**values_for(OtelSettings, otel)))):
        yield "observability.otel.enabled", "OpenTelemetry", "opentelemetry.sdk", "otel"
