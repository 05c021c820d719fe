"""Cross-field validation: how the values of a configuration fit each other.

Owns: the table of all checks across keys, and those of names and counts. Never imports a room above
`domain`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from armory.config import fit
from armory.config.checks import authorization, stores
from armory.config.model import Config
from armory.config.partial import concerns
from armory.config.problems import Findings, Path, nearest
from armory.domain.naming import beginnings, is_server_key, slug


def cross_check(
    data: Mapping[Any, Any], config: Config | None, wrong: Collection[Path] = ()
) -> list[tuple[Path, str]]:
    """(path, message) of everything that does not fit.

    Args:
        data: the data, variables filled in.
        config: the model of it, or of what is left of it; None when nothing is.
        wrong: paths of values that are no good by themselves; what depends on them is not checked.
    """
    found = [*_names(data)]
    if config is not None:
        for check, needs in _CHECKS:
            if not any(concerns(need, wrong) for need in needs):
                found += (
                    (path, message)
                    for path, message in check(config)
                    if not any(bad[: len(path)] == path for bad in wrong)
                )
    return found


def _names(data: Mapping[Any, Any]) -> Findings:
    for block, what in (("upstreams", "an upstream's key"), ("sets", "a set's name")):
        entries = data.get(block)
        for key in entries if isinstance(entries, dict) else ():
            if not is_server_key(str(key)):
                yield (
                    (block, str(key)),
                    f"{what} is made of lower-case words joined by '-'; use {slug(str(key))!r}",
                )


def _sets(config: Config) -> Findings:
    for name, chosen in config.sets.items():
        for position, server in enumerate(chosen.servers):
            if server not in config.upstreams:
                guess = nearest(server, config.upstreams)
                hint = f"; did you mean {guess!r}?" if guess else ""
                yield ("sets", name, "servers", position), f"no upstream is called {server!r}{hint}"
        if not chosen.servers and not chosen.tools:
            yield ("sets", name), "a set needs 'servers' or 'tools'"


def _set_queries(config: Config) -> Findings:
    """Queries of sets that no caller could send: every listing of such a set would fail, and not
    because of what its caller wrote.
    """
    most = config.server.limits.query_chars
    for name, chosen in config.sets.items():
        given = chosen.query or ()
        texts = (given,) if isinstance(given, str) else tuple(given)
        for position, text in enumerate(texts):
            if not text.strip():
                at = ("sets", name, "query")
                message = "expected what is to be done, in plain words; it is blank"
                yield (at if isinstance(given, str) else (*at, position)), message
        length = sum(map(len, texts))
        if length > most:
            yield (
                ("sets", name, "query"),
                f"it has {length:,} characters, and server.limits.query_chars allows {most:,}; say "
                "it shorter",
            )


_WILD = re.compile(r"[*?\[]")


def _cut_names(config: Config) -> Findings:
    """Patterns that begin with a key which is too long to stand in all names of its tools: of what
    they deny, some would be allowed.
    """
    cut = {f"{key}__": beginnings(key)[0] for key in config.upstreams}
    cut = {begin: shown for begin, shown in cut.items() if not f"{shown}_".startswith(begin)}
    if not cut:
        return
    places: list[tuple[Path, list[str]]] = [(("tool_rag", "pin"), config.tool_rag.pin)]
    places += [(("sets", name, "tools"), chosen.tools) for name, chosen in config.sets.items()]
    for number, rule in enumerate(config.security.policies):
        places.append((("security", "policies", number, "allow"), rule.allow))
        places.append((("security", "policies", number, "deny"), rule.deny))
    for path, patterns in places:
        for position, pattern in enumerate(patterns):
            for begin, shown in cut.items():
                if pattern.startswith(begin) and _WILD.search(pattern):
                    yield (
                        (*path, position),
                        "this misses the tools of that upstream whose names are cut: they begin "
                        f"with {shown!r}; write '{shown}*', or give the upstream a shorter key",
                    )


def _proxies(config: Config) -> Findings:
    for position, network in enumerate(config.server.trusted_proxies):
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            yield (
                ("server", "trusted_proxies", position),
                f"{network!r} is no address or network; write e.g. 10.0.0.0/8",
            )


def _accounts(config: Config) -> Findings:
    accounts = config.accounts
    if accounts.default_plan not in accounts.plans:
        guess = nearest(accounts.default_plan, accounts.plans)
        hint = f"; did you mean {guess!r}?" if guess else ""
        yield (
            ("accounts", "default_plan"),
            f"no plan is called {accounts.default_plan!r}{hint}",
        )
    if config.security.api_keys and not accounts.enabled:
        yield (
            ("security", "api_keys"),
            "keys live in the accounts database; say `accounts: {enabled: true}` too",
        )


def _tool_counts(config: Config) -> Findings:
    rag = config.tool_rag
    if rag.min_tools > rag.max_tools:
        yield (
            ("tool_rag", "min_tools"),
            f"{rag.min_tools} is more than max_tools, {rag.max_tools}",
        )


def _patterns(config: Config) -> Findings:
    for position, pattern in enumerate(config.observability.query_log.redact):
        try:
            re.compile(pattern)
        except re.error as error:
            yield (
                ("observability", "query_log", "redact", position),
                f"{pattern!r} is no regular expression: {error}",
            )


def _metrics_port(config: Config) -> Findings:
    server = config.server
    if server.metrics.port is not None and server.metrics.port == server.port != 0:
        yield (
            ("server", "metrics", "port"),
            f"{server.port} is the main port; give another one, or null for the main one",
        )


_CHECKS: tuple[tuple[Callable[[Config], Findings], tuple[Path, ...]], ...] = (
    (_sets, (("upstreams",), ("sets",))),
    (_set_queries, (("sets",), ("server", "limits"))),
    (_cut_names, (("upstreams",), ("sets",), ("tool_rag", "pin"), ("security", "policies"))),
    (fit.upstreams, ()),
    (fit.hosts, (("server", "allowed_hosts"),)),
    (fit.origins, (("server", "allowed_origins"),)),
    (fit.addresses, ()),
    (fit.with_hosts, ()),
    (_proxies, (("server", "trusted_proxies"),)),
    (_accounts, (("accounts", "plans"), ("accounts", "default_plan"), ("accounts", "enabled"))),
    (authorization.jwt, (("security", "jwt", "jwks_url"), ("security", "jwt", "secret"))),
    (authorization.oauth, (("security", "oauth"), ("server", "allowed_hosts"), ("server", "host"))),
    (
        authorization.shared_key,
        (("upstreams",), ("security", "encryption_key"), ("storage", "redis")),
    ),
    (_tool_counts, (("tool_rag", "min_tools"), ("tool_rag", "max_tools"))),
    (stores.qdrant, (("tool_rag", "qdrant", "url"), ("tool_rag", "qdrant", "path"))),
    (_patterns, (("observability", "query_log", "redact"),)),
    (stores.database, (("storage", "url"),)),
    (stores.redis, (("storage", "redis"),)),
    (_metrics_port, (("server", "port"), ("server", "metrics"))),
)
"""Each check with the values that it goes by."""
