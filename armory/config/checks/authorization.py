"""Checks that the authentication methods in `security` work together.

Owns: the checks of tokens, of the provider behind them, of clients and of the key that replicas
share. Never imports a room above `domain` but `oauth`.
"""

from __future__ import annotations

from armory.config.blocks.security import ProxyConfig
from armory.config.model import Config
from armory.config.problems import Findings
from armory.domain.hosts import is_loopback

_REGISTERED = "armory_client_"
"""How the ids begin that the gateway gives to clients which register themselves."""


def jwt(config: Config) -> Findings:
    """Whether exactly one key verifies tokens."""
    block = config.security.jwt
    if block is not None and (block.jwks_url is None) == (block.secret is None):
        yield ("security", "jwt"), "give exactly one of 'jwks_url' and 'secret'"


def oauth(config: Config) -> Findings:
    """Whether tokens can be verified, and are for this gateway."""
    block, server = config.security.oauth, config.server
    if block is None:
        return
    from armory.oauth.metadata import is_secure  # yarl: only where there is something to check

    for issuer in block.issuer:
        if not is_secure(issuer):
            yield (
                ("security", "oauth", "issuer"),
                f"{issuer!r} is no https URL; give the issuer identifier, as in the provider's "
                "/.well-known/openid-configuration",
            )
    if bool(block.issuer) == (block.proxy is not None):
        yield ("security", "oauth"), "give exactly one of 'issuer' and 'proxy'"
    named = server.allowed_hosts and "*" not in server.allowed_hosts
    if block.proxy is not None:
        yield from _proxy(block.proxy, known=bool(named) or is_loopback(server.host))
    elif not (named or block.audience or is_loopback(server.host)):
        yield (
            ("security", "oauth"),
            "a token must be for this gateway, and it does not know its own name: give the names "
            "that clients use under server.allowed_hosts, or security.oauth.audience",
        )


def _proxy(proxy: ProxyConfig, *, known: bool) -> Findings:
    from armory.oauth.metadata import is_secure

    at = ("security", "oauth", "proxy")
    by_hand = (proxy.authorize_url, proxy.token_url)
    if (proxy.issuer is None) != all(by_hand) or (proxy.issuer is not None and any(by_hand)):
        yield at, "give either 'issuer', or 'authorize_url' and 'token_url'"
    if proxy.issuer is None and proxy.userinfo_url is None:
        yield at, "without an 'issuer', 'userinfo_url' has to say who a person is"
    for name in ("issuer", "authorize_url", "token_url", "userinfo_url"):
        url = getattr(proxy, name)
        if url is not None and not is_secure(url):
            yield (*at, name), f"{url!r} is no https URL"
    yield from _clients(proxy)
    if not proxy.consent and not proxy.redirects:
        yield (
            (*at, "consent"),
            "without it any site could have itself let in unseen: give 'redirects', the patterns "
            "of those that may",
        )
    if not known:
        yield (
            at,
            "the gateway gives out tokens for its own URL, and does not know its name: give the "
            "names that clients use under server.allowed_hosts",
        )


def _clients(proxy: ProxyConfig) -> Findings:
    from armory.oauth.metadata import is_secure

    at = ("security", "oauth", "proxy")
    for issuer in proxy.id_jag_issuers:
        if not is_secure(issuer):
            yield (*at, "id_jag_issuers"), f"{issuer!r} is no https URL; give issuer identifiers"
    for id, client in proxy.clients.items():
        if not id.isprintable() or not id or " " in id or id.startswith(("https://", _REGISTERED)):
            yield (
                (*at, "clients", id),
                f"a client id is printable, without spaces, and begins neither with 'https://' nor "
                f"with {_REGISTERED!r}: those are known by themselves",
            )
        if not client.redirects and not proxy.id_jag_issuers:
            yield (
                (*at, "clients", id, "redirects"),
                "give the client's redirect URIs, or 'id_jag_issuers', else nobody can log in "
                "with it",
            )
        for index, uri in enumerate(client.redirects):
            if "*" in uri:
                yield (
                    (*at, "clients", id, "redirects", index),
                    f"{uri!r} is no pattern here: give the URI itself, which on loopback holds for "
                    "every port, e.g. http://127.0.0.1/callback",
                )


def shared_key(config: Config) -> Findings:
    """Whether replicas can read what each of them keeps of people."""
    people = any(
        upstream.auth is not None and upstream.auth.per == "principal"
        for upstream in config.upstreams.values()
    )
    block = config.security.oauth
    people = people or (block is not None and block.proxy is not None)
    if people and config.storage.redis is not None and not config.security.encryption_key:
        yield (
            ("security", "encryption_key"),
            "replicas that share people's logins need one key: take a variable that all of them "
            "have, e.g. ${ARMORY_KEY}",
        )
