"""Cross-field validation: how the values of a configuration fit each other.

Owns: the checks across keys that need nothing but the configuration. Never imports a room above
`domain`, but the names of retrieval's parts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from armory.config import fit
from armory.config.blocks.security import ProxyConfig
from armory.config.model import Config
from armory.config.partial import concerns
from armory.config.problems import Path, nearest
from armory.domain.naming import is_server_key, slug
from armory.retrieval.names import EMBEDDERS

Found = Iterator[tuple[Path, str]]

_OPENAI_PREFIX = "text-embedding-"
_SQLITE_FILE = re.compile(r"sqlite(\+\w+)?:///(?!:memory:(\?|$))[^?](?!.*[?&]mode=memory\b)")
_TORN = (
    "the password seems to hold '@', '/', '?' or '#', which end it there; write %40, %2F, %3F or "
    "%23, or give the password alone as a variable, which is encoded where it has to be: "
    "scheme://user:${PASSWORD}@host/..."
)


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


def provider(config: Config) -> str:
    """Who computes embeddings, one of `EMBEDDERS`, `auto` decided."""
    rag = config.tool_rag
    if rag.embedding_provider != "auto":
        return rag.embedding_provider
    if rag.embedding_model in EMBEDDERS:
        return rag.embedding_model
    return "openai" if rag.embedding_model.startswith(_OPENAI_PREFIX) else "fastembed"


def lacks_openai_key(config: Config) -> bool:
    """Whether embeddings would need a key that is not there."""
    openai = config.tool_rag.openai
    return provider(config) == "openai" and openai.api_key is None and openai.base_url is None


def warnings_of(config: Config) -> list[str]:
    """What is valid and still worth saying, one line each."""
    said: list[str] = []
    if config.tool_rag.enabled and lacks_openai_key(config):
        said.append(
            f"tool_rag.embedding_model: {config.tool_rag.embedding_model!r} needs an OpenAI key "
            "and there is none, so tools are found by their words alone. Two ways out: set "
            "OPENAI_API_KEY (or tool_rag.openai), or say `embedding_model: embedded`, which needs "
            "no key"
        )
    if not config.upstreams:
        said.append("upstreams: there is none yet, so there is no tool to offer")
    elif not any(block.enabled for block in config.upstreams.values()):
        said.append("upstreams: every one is switched off, so there is no tool to offer")
    security = config.security
    credentials = security.tokens or security.api_keys or security.jwt is not None
    if credentials and security.allow_anonymous == "auto" and _is_local(config.server.host):
        said.append(
            "security.allow_anonymous: callers without a credential are let in as well, because "
            f"only this machine reaches {config.server.host}; say `allow_anonymous: false` to "
            "refuse them"
        )
    console = config.server.console and security.oauth is not None and security.oauth.client_id
    if console and config.storage.redis is not None and not security.encryption_key:
        said.append(
            "security.encryption_key: each replica has a key of its own, so a login to the console "
            "that begins at one fails at another; take a variable that all of them have, e.g. "
            "${ARMORY_KEY}"
        )
    return said


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names(data: Mapping[Any, Any]) -> Found:
    for block, what in (("upstreams", "an upstream's key"), ("sets", "a set's name")):
        entries = data.get(block)
        for key in entries if isinstance(entries, dict) else ():
            if not is_server_key(str(key)):
                yield (
                    (block, str(key)),
                    f"{what} is made of lower-case words joined by '-'; use {slug(str(key))!r}",
                )


def _sets(config: Config) -> Found:
    for name, chosen in config.sets.items():
        for position, server in enumerate(chosen.servers):
            if server not in config.upstreams:
                guess = nearest(server, config.upstreams)
                hint = f"; did you mean {guess!r}?" if guess else ""
                yield ("sets", name, "servers", position), f"no upstream is called {server!r}{hint}"
        if not chosen.servers and not chosen.tools:
            yield ("sets", name), "a set needs 'servers' or 'tools'"


def _proxies(config: Config) -> Found:
    for position, network in enumerate(config.server.trusted_proxies):
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            yield (
                ("server", "trusted_proxies", position),
                f"{network!r} is no address or network; write e.g. 10.0.0.0/8",
            )


def _accounts(config: Config) -> Found:
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


def _jwt(config: Config) -> Found:
    jwt = config.security.jwt
    if jwt is not None and (jwt.jwks_url is None) == (jwt.secret is None):
        yield ("security", "jwt"), "give exactly one of 'jwks_url' and 'secret'"


def _oauth(config: Config) -> Found:
    oauth, server = config.security.oauth, config.server
    if oauth is None:
        return
    from armory.oauth.metadata import is_secure  # yarl: only where there is something to check

    for issuer in oauth.issuer:
        if not is_secure(issuer):
            yield (
                ("security", "oauth", "issuer"),
                f"{issuer!r} is no https URL; give the issuer identifier, as in the provider's "
                "/.well-known/openid-configuration",
            )
    if bool(oauth.issuer) == (oauth.proxy is not None):
        yield ("security", "oauth"), "give exactly one of 'issuer' and 'proxy'"
    named = server.allowed_hosts and "*" not in server.allowed_hosts
    if oauth.proxy is not None:
        yield from _proxy(oauth.proxy, known=bool(named) or _is_local(server.host))
    elif not (named or oauth.audience or _is_local(server.host)):
        yield (
            ("security", "oauth"),
            "a token must be for this gateway, and it does not know its own name: give the names "
            "that clients use under server.allowed_hosts, or security.oauth.audience",
        )


_REGISTERED = "armory_client_"


def _proxy(proxy: ProxyConfig, *, known: bool) -> Found:
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


def _clients(proxy: ProxyConfig) -> Found:
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


def _shared_key(config: Config) -> Found:
    people = any(
        upstream.auth is not None and upstream.auth.per == "principal"
        for upstream in config.upstreams.values()
    )
    oauth = config.security.oauth
    people = people or (oauth is not None and oauth.proxy is not None)
    if people and config.storage.redis is not None and not config.security.encryption_key:
        yield (
            ("security", "encryption_key"),
            "replicas that share people's logins need one key: take a variable that all of them "
            "have, e.g. ${ARMORY_KEY}",
        )


def _tool_counts(config: Config) -> Found:
    rag = config.tool_rag
    if rag.min_tools > rag.max_tools:
        yield (
            ("tool_rag", "min_tools"),
            f"{rag.min_tools} is more than max_tools, {rag.max_tools}",
        )


def _qdrant(config: Config) -> Found:
    rag = config.tool_rag
    if rag.index == "qdrant" and (rag.qdrant.url is None) == (rag.qdrant.path is None):
        yield ("tool_rag", "qdrant"), "`index: qdrant` needs exactly one of 'url' and 'path'"
    name = rag.qdrant.collection
    if not re.fullmatch(r'[^<>:"/\\|?*\x00-\x1f]{1,150}', name):
        yield (
            ("tool_rag", "qdrant", "collection"),
            f"{name!r} cannot begin the name of a Qdrant collection; expected 1 to 150 characters, "
            'none of < > : " / \\ | ? * and no control characters',
        )


def _patterns(config: Config) -> Found:
    for position, pattern in enumerate(config.observability.query_log.redact):
        try:
            re.compile(pattern)
        except re.error as error:
            yield (
                ("observability", "query_log", "redact", position),
                f"{pattern!r} is no regular expression: {error}",
            )


def _storage_url(config: Config) -> Found:
    scheme = config.storage.url.partition(":")[0].partition("+")[0]
    if scheme not in ("sqlite", "postgresql", "postgres"):
        yield (
            ("storage", "url"),
            f"a database of kind {scheme!r} is not known; use sqlite:///FILE or postgresql://...",
        )
    elif scheme == "sqlite" and not _SQLITE_FILE.match(config.storage.url):
        yield (
            ("storage", "url"),
            f"{config.storage.url!r} names no file, and what is kept must survive a restart; write "
            "sqlite:///FILE, with four slashes where FILE begins at the root",
        )
    elif scheme != "sqlite" and _torn(config.storage.url):
        yield ("storage", "url"), _TORN


def _redis(config: Config) -> Found:
    redis = config.storage.redis
    if redis is not None and redis.partition(":")[0] not in ("redis", "rediss", "unix"):
        yield ("storage", "redis"), "a redis://, rediss:// or unix:// URL is expected"
    elif redis is not None and _torn(redis):
        yield ("storage", "redis"), _TORN


def _torn(url: str) -> bool:
    """Whether a password ends the part of a URL in which it stands: it holds `@`, `/`, `?`, `#`."""
    rest = url.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    path, _, query = rest[len(authority) :].partition("?")
    if "@" in path or authority.count("@") > 1:
        return True
    return "@" not in authority and "@" in query and "=" not in query.partition("@")[0]


def _metrics_port(config: Config) -> Found:
    server = config.server
    if server.metrics.port is not None and server.metrics.port == server.port != 0:
        yield (
            ("server", "metrics", "port"),
            f"{server.port} is the main port; give another one, or null for the main one",
        )


_CHECKS: tuple[tuple[Callable[[Config], Found], tuple[Path, ...]], ...] = (
    (_sets, (("upstreams",), ("sets",))),
    (fit.upstreams, ()),
    (fit.hosts, (("server", "allowed_hosts"),)),
    (fit.origins, (("server", "allowed_origins"),)),
    (fit.addresses, ()),
    (_proxies, (("server", "trusted_proxies"),)),
    (_accounts, (("accounts", "plans"), ("accounts", "default_plan"), ("accounts", "enabled"))),
    (_jwt, (("security", "jwt", "jwks_url"), ("security", "jwt", "secret"))),
    (_oauth, (("security", "oauth"), ("server", "allowed_hosts"), ("server", "host"))),
    (_shared_key, (("upstreams",), ("security", "encryption_key"), ("storage", "redis"))),
    (_tool_counts, (("tool_rag", "min_tools"), ("tool_rag", "max_tools"))),
    (_qdrant, (("tool_rag", "qdrant", "url"), ("tool_rag", "qdrant", "path"))),
    (_patterns, (("observability", "query_log", "redact"),)),
    (_storage_url, (("storage", "url"),)),
    (_redis, (("storage", "redis"),)),
    (_metrics_port, (("server", "port"), ("server", "metrics"))),
)
"""Each check with the values that it goes by."""
