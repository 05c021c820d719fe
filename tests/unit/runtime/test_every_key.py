"""No key is read and then ignored: each changes the settings that something is built from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from armory.config import Loaded, load_text
from armory.config.blocks.retrieval import (
    MultiFactorConfig,
    OpenAIConfig,
    QdrantConfig,
    ToolRagConfig,
)
from armory.config.blocks.server import LimitsConfig
from armory.config.blocks.upstream import BreakerConfig, TlsConfig, ToolsConfig, UpstreamConfig
from armory.config.model import SetConfig
from armory.runtime.blocks.upstreams import tool_rules, upstream_spec
from armory.runtime.retrieval import retrieval_options
from armory.runtime.settings import (
    gateway_settings,
    http_settings,
    listen_settings,
    stdio_settings,
)

UPSTREAM = ("upstreams", "u")
RAG = ("tool_rag",)
BLOCKS: dict[tuple[str, ...], tuple[type[Any], dict[str, Any], set[str]]] = {
    # block: its model, values of keys that are no plain numbers or switches, keys that are used
    # beside these settings and have tests of their own
    ("server", "limits"): (
        LimitsConfig,
        {"connections": 100},
        {
            "inflow_bytes",
            "outflow_bytes",
            "concurrent_starts",
            "tasks_per_principal",
            "rest_query_chars",
            "rest_top_k",
            "searches",
            "searches_per_principal",
        },
    ),
    UPSTREAM: (
        UpstreamConfig,
        {
            "headers": {"X-Key": "1"},
            "args": ["a"],
            "env": {"A": "b"},
            "inherit_env": ["A"],
            "cwd": "/tmp",
            "transport": "sse",
            "proxy": "http://proxy.example:3128",
            "protocol": "2025-06-18",
            "isolation": "shared",
            "lists": "shared",
            "include": ["a*"],
            "exclude": ["a*"],
            "category": "clocks",
            "tags": ["fast"],
            "result_format": "toon",
        },
        {"enabled", "command", "url", "openapi", "base_url", "skills", "auth"},
    ),
    (*UPSTREAM, "tools"): (
        ToolsConfig,
        {
            "allow": ["a"],
            "deny": ["a"],
            "rename": {"a": "b"},
            "describe": {"a": "b"},
            "pin": ["a"],
            "tags": {"a": ["b"]},
        },
        set(),
    ),
    (*UPSTREAM, "tls"): (TlsConfig, {"ca_file": "ca.pem"}, set()),
    (*UPSTREAM, "breaker"): (BreakerConfig, {}, set()),
    ("sets", "s"): (
        SetConfig,
        {"tools": ["u__a"], "servers": [], "query": "time", "without_query": "search"},
        set(),
    ),
    RAG: (
        ToolRagConfig,
        {
            "embedding_model": "text-embedding-3-small",
            "embedding_provider": "openai",
            "embedding_strategy": "synthetic_queries",
            "threshold_on": "raw",
            "ranker": "hybrid",
            "rerank": "some/model",
            "miss_cost": 5,
            "token_budget": 100,
            "without_query": "all",
            "pin": ["u__*"],
            "reveal": "session",
            "index": "faiss",
        },
        {"learn_from_use"},
    ),
    (*RAG, "openai"): (
        OpenAIConfig,
        {"base_url": "http://127.0.0.1:1/v1", "api_key": "k", "dimensions": 256},
        set(),
    ),
    (*RAG, "qdrant"): (
        QdrantConfig,
        {
            "url": "http://127.0.0.1:6333",
            "api_key": "k",
            "collection": "other",
            "quantization": "int8",
        },
        {"path"},
    ),
    (*RAG, "multi_factor"): (
        MultiFactorConfig,
        {
            "weights": {
                "similarity": 0.4,
                "popularity": 0.2,
                "history": 0.2,
                "performance": 0.2,
            }
        },
        set(),
    ),
}
KINDS = {  # of upstream, by the keys that only one kind has
    "args": "command",
    "env": "command",
    "inherit_env": "command",
    "cwd": "command",
    "include": "openapi",
    "exclude": "openapi",
    "start_timeout_s": "command",
}


def _written(path: tuple[str, ...], value: Any) -> Any:
    for part in reversed(path):
        value = {part: value}
    return value


def _joined(one: Any, other: Any) -> Any:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    return {**one, **{key: _joined(one.get(key), value) for key, value in other.items()}}


def _cases() -> list[tuple[tuple[str, ...], Any]]:
    cases: list[tuple[tuple[str, ...], Any]] = []
    for block, (model, values, elsewhere) in BLOCKS.items():
        for name, field in model.model_fields.items():
            if name in elsewhere or (*block, name) in BLOCKS:
                continue
            default = field.get_default(call_default_factory=True)
            value = values[name] if name in values else _other(default)
            cases.append(((*block, name), value))
    return cases


def _other(default: Any) -> Any:
    if isinstance(default, bool):
        return not default
    if isinstance(default, float) and default <= 1:
        return default / 2
    return default - 1 if default > 1 else default + 1


def _settings(written: Any) -> list[Any]:
    loaded: Loaded = load_text(
        json.dumps(written), environ={"ARMORY_HOME": "/tmp/armory-of-nobody"}
    )
    config = loaded.config
    block = config.upstreams["u"]
    return [
        http_settings(config),
        stdio_settings(config),
        listen_settings(config.server),
        gateway_settings(config),
        retrieval_options(loaded),
        upstream_spec("u", block, loaded),
        tool_rules(block),
    ]


@pytest.mark.parametrize(("path", "value"), _cases(), ids=lambda given: str(given)[:60])
def test_a_key_changes_what_is_built(path: tuple[str, ...], value: Any) -> None:
    kind = KINDS.get(path[2], "url") if path[:2] == UPSTREAM else "url"
    address = {"url": "http://127.0.0.1:1/mcp", "command": "python", "openapi": "./a.yaml"}
    base: dict[str, Any] = {"upstreams": {"u": {kind: address[kind]}}}
    if path[0] == "sets":
        base["sets"] = {"s": {"servers": ["u"], "tools": ["u__b"]}}
    if path[:2] == (*RAG, "qdrant"):
        qdrant = {"index": "qdrant", "qdrant": {"url": "http://127.0.0.1:1"}}
        base = _joined(base, {"tool_rag": qdrant})
    assert _settings(_joined(base, _written(path, value))) != _settings(base)
