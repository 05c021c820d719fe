"""From the configuration's blocks to the plain values that constructors take.

Owns: the one place where names of `armory.yaml` meet names of the code. Opens nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from armory.config import Config, Loaded
from armory.config.base import values_for
from armory.config.blocks.server import ServerConfig
from armory.config.blocks.upstream import UpstreamConfig
from armory.domain.catalog import ToolRules
from armory.domain.hosts import is_loopback
from armory.errors import ConfigError
from armory.gateway.settings import GROUPS, GatewaySettings, Personal, SetSpec
from armory.observability.settings import ActivitySettings, LogSettings
from armory.runtime.blocks.grants import grant
from armory.runtime.version import armory_version
from armory.security.authentication import (
    Admission,
    Authenticator,
    ProtectedResource,
    Scheme,
    StaticToken,
)
from armory.security.packs import Packs
from armory.security.policy import Policy, Rule
from armory.telemetry.settings import OtelSettings
from armory.upstreams.oauth.grants import has_logins, is_personal
from armory.upstreams.spec import UpstreamSpec
from armory.web.settings import ListenSettings
from armory.wire.http.settings import HttpSettings
from armory.wire.settings import StdioSettings


def secret(value: SecretStr | None) -> str | None:
    """The text of a secret."""
    return None if value is None else value.get_secret_value()


@dataclass(frozen=True, slots=True)
class Reloadable:
    """What can be swapped while the gateway serves."""

    specs: tuple[UpstreamSpec, ...]
    rules: Mapping[str, ToolRules]
    policy: Policy
    gateway: GatewaySettings


def reloadable(loaded: Loaded, packs: Packs | None = None) -> Reloadable:
    """The swappable part of a configuration.

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
            by_capabilities=frozenset(spec.key for spec in specs if spec.lists == "auto"),
            own_accounts=frozenset(spec.key for spec in specs if has_logins(spec.auth)),
        ),
    )


def problems_of(loaded: Loaded) -> list[ConfigError]:
    """Everything that building from this configuration would refuse, without opening anything."""
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


def upstream_specs(loaded: Loaded) -> list[UpstreamSpec]:
    """Every upstream that is enabled, in the order of the file."""
    return [
        upstream_spec(key, block, loaded)
        for key, block in loaded.config.upstreams.items()
        if block.enabled
    ]


def upstream_spec(key: str, block: UpstreamConfig, loaded: Loaded) -> UpstreamSpec:
    """One upstream. Relative paths count from the configuration's folder.

    Raises:
        ConfigError: its keys do not fit each other.
    """
    env = dict(block.env)
    if block.command is not None:
        env.setdefault("PATH", search_path())
    limits = loaded.config.server.limits
    return UpstreamSpec(
        key,
        **values_for(
            UpstreamSpec,
            block,
            but=("command", "env", "cwd", "inherit_env", "auth", "openapi", "skills"),
        ),
        command=_program(block, loaded),
        env=env,
        cwd=_path(block.cwd, loaded),
        inherit_env=(*loaded.config.inherit_env, *block.inherit_env),
        auth=None if block.auth is None else grant(key, block.auth, loaded.home),
        openapi=_description(block.openapi, loaded),
        skills=_path(block.skills, loaded),
        groups=GROUPS in loaded.config.server.experimental,
        ca_file=None if block.tls.ca_file is None else str(loaded.folder / block.tls.ca_file),
        verify=block.tls.verify,
        patient="start_timeout_s" in block.model_fields_set,
        breaker_failures=block.breaker.failures,
        breaker_open_s=block.breaker.open_s,
        message_bytes=limits.stdio_line_bytes,
        list_entries=limits.list_entries,
        list_bytes=limits.list_bytes,
    )


def _description(given: str | None, loaded: Loaded) -> str | None:
    """Where a description is: a URL as it stands, a path from the configuration's folder on."""
    if given is None or given.startswith(("http://", "https://")):
        return given
    return _path(given, loaded)


def _program(block: UpstreamConfig, loaded: Loaded) -> str | None:
    """A name as it stands; a path from `cwd` on, where there is one: the process begins there."""
    given = block.command
    if given is None or os.sep not in given:
        return given
    path = os.path.expanduser(given)
    return path if block.cwd is not None else str(loaded.folder.absolute() / path)


def _path(given: str | None, loaded: Loaded) -> str | None:
    return None if given is None else str(loaded.folder / Path(given).expanduser())


def personal_lists(specs: Sequence[UpstreamSpec]) -> dict[str, Personal]:
    """The upstreams whose lists may have to be fetched for each caller.

    Where `${principal}` does not occur and nobody has an account of its own, every caller comes
    with the same credentials, and no list may differ.
    """
    found: dict[str, Personal] = {}
    for spec in specs:
        if spec.lists == "principal" or (spec.lists == "auto" and is_personal(spec.auth)):
            found[spec.key] = "always"
        elif spec.lists == "auto" and spec.templated:
            found[spec.key] = "private"
    return found


def search_path() -> str:
    """PATH for stdio servers: as if the virtual environment that Armory runs in were active."""
    inherited = os.environ.get("PATH", os.defpath)
    if sys.prefix == sys.base_prefix:
        return inherited
    own = str(Path(sys.executable).parent)
    return inherited if inherited.split(os.pathsep)[0] == own else own + os.pathsep + inherited


def tool_rules(block: UpstreamConfig) -> ToolRules:
    """What the file says about one upstream's tools."""
    tags = {pattern: tuple(names) for pattern, names in block.tools.tags.items()}
    if block.tags:
        tags["*"] = (*tags.get("*", ()), *block.tags)
    return ToolRules(
        allow=tuple(block.tools.allow),
        deny=tuple(block.tools.deny),
        rename=dict(block.tools.rename),
        describe=dict(block.tools.describe),
        tags=tags,
        category=block.category,
    )


def policy_rules(config: Config) -> list[Rule]:
    """The policies, as rules."""
    return [
        Rule(who=tuple(rule.who), allow=tuple(rule.allow), deny=tuple(rule.deny))
        for rule in config.security.policies
    ]


def gateway_settings(config: Config) -> GatewaySettings:
    """What the request path needs to know."""
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
    """What is logged, and how."""
    return LogSettings(**values_for(LogSettings, config.observability))


def activity_settings(config: Config) -> ActivitySettings:
    """What is kept of the latest calls."""
    return ActivitySettings(**values_for(ActivitySettings, config.observability.activity))


def otel_settings(config: Config) -> OtelSettings:
    """What OpenTelemetry is told, and whether."""
    return OtelSettings(**values_for(OtelSettings, config.observability.otel))


def listen_settings(server: ServerConfig) -> ListenSettings:
    """How the server listens and ends."""
    return ListenSettings(
        **values_for(ListenSettings, server.limits), drain_timeout_s=server.drain_timeout_s
    )


def base_path(config: Config) -> str:
    """`server.base_path` without a trailing slash."""
    return config.server.base_path.rstrip("/")


def http_settings(config: Config) -> HttpSettings:
    """The HTTP edge's configuration."""
    server = config.server
    return HttpSettings(
        base_path=base_path(config),
        **values_for(HttpSettings, server, but=("base_path",)),
        **values_for(HttpSettings, server.limits),
        parked=server.limits.parked_interactions,
    )


def stdio_settings(config: Config) -> StdioSettings:
    """How one client is served over standard input and output."""
    limits = config.server.limits
    return StdioSettings(
        **values_for(StdioSettings, limits),
        line_bytes=limits.stdio_line_bytes,
        drain_timeout_s=config.server.drain_timeout_s,
    )


def has_credentials(config: Config) -> bool:
    """Whether anybody could authenticate at all."""
    security = config.security
    signed = security.jwt is not None or security.oauth is not None
    return bool(security.tokens) or security.api_keys or signed


def authenticator(
    config: Config,
    schemes: Sequence[Scheme] = (),
    admission: Admission | None = None,
    *,
    also: Sequence[StaticToken] = (),
) -> Authenticator:
    """The chain of static tokens, further schemes and, where allowed, anonymous callers.

    Args:
        config: the configuration.
        schemes: API keys and session tokens.
        admission: looks up the accounts of callers that have one.
        also: static tokens beside the configured ones.

    Raises:
        ConfigError: nobody could connect, everybody could without meaning to, or a token is bad.
    """
    security = config.security
    loopback = is_loopback(config.server.host) and security.oauth is None
    anonymous = loopback if security.allow_anonymous == "auto" else security.allow_anonymous
    if not anonymous and not has_credentials(config):
        why, else_ = (
            f"the gateway would listen on {config.server.host}, which others can reach, and there "
            "is no token",
            "bind 127.0.0.1, or say `allow_anonymous: true` if everybody may use it",
        )
        if is_loopback(config.server.host):
            why, else_ = (
                "nobody could connect: who has no token is refused, and there is no token",
                "or leave this key out",
            )
        raise ConfigError(
            f"{why}; give one under security.tokens, {else_}",
            path="security.allow_anonymous",
        )
    return Authenticator(
        [
            StaticToken(
                name=name,
                token=entry.token.get_secret_value(),
                scopes=frozenset(entry.scopes),
                user=entry.user,
            )
            for name, entry in security.tokens.items()
        ]
        + list(also),
        schemes,
        allow_anonymous=anonymous,
        admission=admission,
        protected=protected_resource(config),
    )


def protected_resource(config: Config) -> ProtectedResource | None:
    """What the gateway says of itself as a resource of OAuth; None where it is none."""
    oauth = config.security.oauth
    if oauth is None:
        return None
    return ProtectedResource(
        tuple(oauth.issuer), tuple(oauth.scopes), by_itself=oauth.proxy is not None
    )
