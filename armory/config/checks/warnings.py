"""Warnings about a valid configuration.

Owns: the warnings, a function each. Never imports a room above `domain`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from armory.config.blocks.security import SecurityConfig
from armory.config.checks.itself import own_upstreams
from armory.config.embedding import lacks_openai_key, without_a_key
from armory.config.model import Config
from armory.config.problems import dotted
from armory.domain.hosts import is_loopback

_CHOSEN = frozenset(("login", "preferred_username", "username", "nickname", "name"))
"""Claims whose value people choose themselves."""


def warnings_of(config: Config) -> list[str]:
    """The warnings, one line each."""
    security = config.security
    return [
        *_without_embedder(config),
        *_without_upstreams(config),
        *_open_to_anybody(config),
        *_administrators_by_login(security),
        *_keys_of_replicas(config),
        *_own_address(config),
        *_taken_for_all(security),
        *_names_to_take(security),
        *_idle_rules(security),
        *_tokens_by_another_name(security),
    ]


def _without_embedder(config: Config) -> Iterator[str]:
    """Embeddings that need a key which is missing."""
    if config.tool_rag.enabled and lacks_openai_key(config):
        yield (
            f"tool_rag.embedding_model: {config.tool_rag.embedding_model!r} needs an OpenAI key "
            "and there is none, so tools are found by their words alone. Two ways out: set "
            f"OPENAI_API_KEY (or tool_rag.openai), or say `{without_a_key(config)}`, which needs "
            "no key"
        )


def _without_upstreams(config: Config) -> Iterator[str]:
    """A gateway that offers nothing."""
    if not config.upstreams:
        yield "upstreams: there is none yet, so there is no tool to offer"
    elif not any(block.enabled for block in config.upstreams.values()):
        yield "upstreams: every one is switched off, so there is no tool to offer"


def _open_to_anybody(config: Config) -> Iterator[str]:
    """Callers without a credential, on a loopback address behind a proxy or beside credentials."""
    security = config.security
    open_here = is_loopback(config.server.host) and security.oauth is None
    if security.allow_anonymous != "auto" or not open_here:
        return
    if config.server.trusted_proxies:
        yield (
            "security.allow_anonymous: callers without a credential are let in, also those "
            "that come through server.trusted_proxies, whoever they are; say "
            "`allow_anonymous: false` to refuse them, or `true` if the proxy asks for a "
            "credential itself"
        )
    elif security.tokens or security.api_keys or security.jwt is not None:
        yield (
            "security.allow_anonymous: callers without a credential are let in as well, "
            f"because only this machine reaches {config.server.host}; say `allow_anonymous: "
            "false` to refuse them, behind a proxy above all"
        )


def _administrators_by_login(security: SecurityConfig) -> Iterator[str]:
    """The scope `admin` for everybody who logs in."""
    oauth = security.oauth
    if oauth is not None and oauth.proxy is not None and "admin" in oauth.scopes:
        yield (
            "security.oauth.scopes: with `proxy` every token has them, so whoever has an account "
            "at the provider is an administrator; have the provider say who is, in a claim that "
            "security.oauth.scopes_claim names"
        )


def _keys_of_replicas(config: Config) -> Iterator[str]:
    """Logins to the console that end at a replica with another key."""
    security = config.security
    console = config.server.console and security.oauth is not None and security.oauth.client_id
    if console and config.storage.redis is not None and not security.encryption_key:
        yield (
            "security.encryption_key: each replica has a key of its own, so a login to the console "
            "that begins at one fails at another; take a variable that all of them have, e.g. "
            "${ARMORY_KEY}"
        )


def _own_address(config: Config) -> Iterator[str]:
    """Upstreams that are the gateway itself."""
    for path, url in own_upstreams(config):
        yield (
            f"{dotted(path)}: {url} is this gateway itself, as `armory serve` listens, which "
            "refuses it"
        )


def _taken_for_all(security: SecurityConfig) -> Iterator[str]:
    """A provider's tokens for any tenant or application, which would all be accepted."""
    block = security.jwt
    if block is None or block.jwks_url is None:
        return
    accepted = {"issuer": "of any tenant", "audience": "for any application"}
    lacking = [name for name in accepted if getattr(block, name) is None]
    if lacking:
        whose = " and ".join(accepted[name] for name in lacking)
        yield (
            f"security.jwt: without {' and '.join(lacking)} every token is taken that is signed "
            f"with the provider's keys, {whose}; say what the tokens for this gateway have"
        )


def _names_to_take(security: SecurityConfig) -> Iterator[str]:
    """Rules that are for a token or a scope, and that somebody can have by choosing a name."""
    schemes = [scheme for scheme in (security.oauth, security.jwt) if scheme is not None]
    claims = sorted(_CHOSEN.intersection(scheme.user_claim for scheme in schemes))
    if not claims:
        return
    tokens = security.tokens.items()
    names = {"admin"} | {text for name, token in tokens for text in (name, *token.scopes)}
    names.update(security.oauth.scopes if security.oauth is not None else ())
    for place, rule in enumerate(security.policies):
        for pattern in rule.who:
            if pattern.strip("*") and any(fnmatchcase(name, pattern) for name in names):
                yield (
                    f"security.policies.{place}.who: {pattern!r} is for a token or a scope, and "
                    "for whoever is called so as well; people choose what stands in the claim "
                    f"{claims[0]!r}, so give tokens and scopes names that none of them can have, "
                    "or take a claim that nobody chooses"
                )


def _idle_rules(security: SecurityConfig) -> Iterator[str]:
    """Rules that allow nothing to anybody."""
    rules = security.policies
    if rules and not any(rule.allow for rule in rules):
        yield (
            "security.policies: what no rule allows is denied, and no rule allows anything, so "
            'everybody is denied everything; say what is allowed, e.g. `allow: ["*"]`'
        )
        return
    for place, rule in enumerate(rules):
        if not rule.allow and not rule.deny:
            yield (
                f"security.policies.{place}: it neither allows nor denies anything, so it has no "
                "effect; give it `allow` or `deny`"
            )


def _tokens_by_another_name(security: SecurityConfig) -> Iterator[str]:
    """Rules that are to be for a token, and name it as the audit and commands do."""
    rules = (("policies", security.policies), ("quotas", security.quotas))
    patterns = (
        (f"security.{block}.{place}.who", pattern)
        for block, listed in rules
        for place, rule in enumerate(listed)
        for pattern in rule.who
    )
    for where, pattern in patterns:
        kind, _, name = pattern.partition(":")
        if kind == "token" and any(fnmatchcase(token, name) for token in security.tokens):
            yield (
                f"{where}: {pattern!r} is no token; here a token goes by its name alone, so say "
                f"{name!r}"
            )
