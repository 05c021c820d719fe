"""Where `armory.yaml` says nothing, it means what the code means by itself."""

from __future__ import annotations

from dataclasses import replace

from armory.config import Loaded, load_text
from armory.domain.catalog import ToolRules
from armory.gateway.settings import GatewaySettings
from armory.observability.settings import LogSettings
from armory.retrieval.options import Limits
from armory.retrieval.registry import RetrievalOptions
from armory.runtime.blocks.upstreams import tool_rules, upstream_spec
from armory.runtime.retrieval import retrieval_options
from armory.runtime.settings import (
    gateway_settings,
    http_settings,
    listen_settings,
    log_settings,
    stdio_settings,
)
from armory.runtime.version import armory_version
from armory.upstreams.spec import UpstreamSpec
from armory.web.settings import ListenSettings
from armory.wire.settings import HttpSettings, StdioSettings


def loaded(text: str = "") -> Loaded:
    return load_text(text, environ={})


def test_of_the_server_its_logs_and_its_edge() -> None:
    config = loaded().config
    assert log_settings(config) == LogSettings()
    assert listen_settings(config.server) == ListenSettings()
    assert http_settings(config) == HttpSettings()
    assert stdio_settings(config) == StdioSettings()


def test_of_an_upstream() -> None:
    given = loaded("upstreams: {a: {url: 'http://127.0.0.1:1/mcp'}}")
    block = given.config.upstreams["a"]
    assert upstream_spec("a", block, given) == UpstreamSpec("a", url="http://127.0.0.1:1/mcp")
    assert tool_rules(block) == ToolRules()


def test_of_lists_and_retrieval() -> None:
    given = loaded()
    plain_gateway = GatewaySettings(server_version=armory_version())
    assert gateway_settings(given.config) == plain_gateway
    options, plain = retrieval_options(given), RetrievalOptions()
    assert options.settings.limits == Limits()
    assert replace(options.settings, rank=plain.settings.rank) == plain.settings
    assert replace(options, settings=plain.settings, cache_dir=None) == plain


def test_the_last_call_counts_where_context_boosts_do() -> None:
    given = loaded("tool_rag: {multi_factor: {context_boosts: true}}")
    assert gateway_settings(given.config).context_boosts is True


def test_the_version_is_looked_up_once() -> None:
    """Each search over REST needs it, and it takes milliseconds."""
    assert armory_version() is armory_version()
