"""Converts the configuration to the plain settings that constructors take.

Owns: the settings of rooms, and what of them a reload can swap. Blocks that make more than plain
values have their files in `blocks`. Opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from armory.config import Config, Loaded
from armory.config.base import values_for
from armory.config.blocks.server import ServerConfig
from armory.domain.catalog import ToolRules
from armory.errors import ConfigError
from armory.gateway.settings import GatewaySettings, Personal, SetSpec
from armory.observability.settings import ActivitySettings, LogSettings
from armory.runtime.blocks.authentication import authenticator
from armory.runtime.blocks.upstreams import tool_rules, upstream_spec, upstream_specs
from armory.runtime.version import armory_version
from armory.security.packs import Packs
from armory.security.policy import Policy, Rule
from armory.telemetry.settings import OtelSettings
from armory.upstreams.oauth.grants import has_logins, is_personal
from armory.upstreams.spec import UpstreamSpec
from armory.web.settings import ListenSettings
from armory.wire.settings import HttpSettings, StdioSettings


@dataclass(frozen=True, slots=True)
class Reloadable:
    """The settings that can be replaced while the gateway serves."""

    specs: tuple[UpstreamSpec, ...]
    rules: Mapping[str, ToolRules]
    policy: Policy
    gateway: GatewaySettings


def reloadable(loaded: Loaded, packs: Packs | None) -> Reloadable:
    """The replaceable part of a configuration.

    Args:
        loaded: the configuration.
        packs: the active packs of users; None where accounts are off.

    Raises:
        ConfigError: a block does not fit itself.
    """
    config = loaded.config
    specs = tuple(upstream_specs(loaded))
    return Reloadable(
        specs=specs,
        rules={key: tool_rules(block) for key, block in config.upstreams.items()},
        policy=Policy(policy_rules(config), packs),
        gateway=replace(
            gateway_settings(config),
            personal=personal_lists(specs),
            by_capabilities={spec.key: spec for spec in specs if spec.lists == "auto"},
            own_accounts=frozenset(spec.key for spec in specs if has_logins(spec.auth)),
        ),
    )


def problems_of(loaded: Loaded) -> list[ConfigError]:
    """All problems that building from this configuration would meet, without opening anything."""
    found: list[ConfigError] = []
    steps: list[Callable[[], object]] = [
        partial(upstream_spec, key, block, loaded) for key, block in loaded.config.upstreams.items()
    ]
    steps += [partial(authenticator, loaded.config), partial(policy_rules, loaded.config)]
    for step in steps:
        try:
            step()
        except ConfigError as error:
            found.append(error)
    return found


def personal_lists(specs: Sequence[UpstreamSpec]) -> dict[str, Personal]:
    """The upstreams whose lists may have to be fetched for each caller.

    Without `${principal}` and own accounts, every caller has the same credentials, and no list can
    differ.
    """
    found: dict[str, Personal] = {}
    for spec in specs:
        if spec.lists == "principal" or (spec.lists == "auto" and is_personal(spec.auth)):
            found[spec.key] = "always"
        elif spec.lists == "auto" and spec.templated:
            found[spec.key] = "private"
    return found


def policy_rules(config: Config) -> list[Rule]:
    """The policies, as rules."""
    return [
        Rule(who=tuple(rule.who), allow=tuple(rule.allow), deny=tuple(rule.deny))
        for rule in config.security.policies
    ]


def gateway_settings(config: Config) -> GatewaySettings:
    """The settings of the request path."""
    rag = config.tool_rag
    sets: dict[str, SetSpec] = {}
    for name, chosen in config.sets.items():
        query = (chosen.query,) if isinstance(chosen.query, str) else tuple(chosen.query or ())
        sets[name] = SetSpec(**values_for(SetSpec, chosen, but=("query",)), query=query)
    return GatewaySettings(
        tool_rag=rag.enabled,
        **values_for(GatewaySettings, rag, but=("search_tools", "call_tool")),
        query_chars=config.server.limits.query_chars,
        query_top_k=config.server.limits.query_top_k,
        search_tools=rag.search_tools and rag.enabled,
        call_tool=rag.call_tool and rag.enabled,
        context_boosts=rag.multi_factor.context_boosts,
        server_pins={
            key: tuple(block.tools.pin)
            for key, block in config.upstreams.items()
            if block.tools.pin
        },
        find_tools=config.agent.enabled and rag.enabled,
        sets=sets,
        result_formats={
            key: block.result_format
            for key, block in config.upstreams.items()
            if block.result_format != "json"
        },
        server_version=armory_version(),
        experimental=frozenset(config.server.experimental),
        base_path=base_path(config),
    )


def log_settings(config: Config) -> LogSettings:
    """The settings of the log."""
    return LogSettings(**values_for(LogSettings, config.observability))


def activity_settings(config: Config) -> ActivitySettings:
    """The settings of the activity record."""
    return ActivitySettings(**values_for(ActivitySettings, config.observability.activity))


def otel_settings(config: Config) -> OtelSettings:
    """The settings of OpenTelemetry."""
    return OtelSettings(**values_for(OtelSettings, config.observability.otel))


def listen_settings(server: ServerConfig) -> ListenSettings:
    """The settings of the listening server."""
    return ListenSettings(
        **values_for(ListenSettings, server.limits), drain_timeout_s=server.drain_timeout_s
    )


def base_path(config: Config) -> str:
    """`server.base_path` without a trailing slash."""
    return config.server.base_path.rstrip("/")


def http_settings(config: Config) -> HttpSettings:
    """The settings of the HTTP edge."""
    server = config.server
    return HttpSettings(
        base_path=base_path(config),
        **values_for(HttpSettings, server, but=("base_path",)),
        **values_for(HttpSettings, server.limits),
        parked=server.limits.parked_interactions,
    )


def stdio_settings(config: Config) -> StdioSettings:
    """The settings of the stdio edge."""
    limits = config.server.limits
    return StdioSettings(
        **values_for(StdioSettings, limits),
        line_bytes=limits.stdio_line_bytes,
        drain_timeout_s=config.server.drain_timeout_s,
    )
