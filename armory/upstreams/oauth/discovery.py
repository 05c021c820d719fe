"""Discovery of the authorization server that an upstream trusts, and of its endpoints.

Owns: protected-resource metadata (RFC 9728), and what of them and of the authorization server's is
believed. Never sees a secret; never imports the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yarl import URL

from armory.domain.hosts import LOOPBACK
from armory.domain.uris import readable
from armory.oauth.metadata import (
    CannotAnswer,
    Fetch,
    Undiscovered,
    same_issuer,
    server_metadata,
    shown,
    text,
    texts,
)
from armory.upstreams.oauth.providers import stands_for

_PARAMETER = re.compile(
    r'(?<![A-Za-z0-9_-])([A-Za-z0-9_-]++)\s*+=\s*+(?:"((?:[^"\\]++|\\.)*+)"|([^\s,"]++))'
)
_ESCAPED = re.compile(r"\\(.)")
_RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER = "its authorization server"


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a `WWW-Authenticate: Bearer` header says.

    Attributes:
        metadata_url: of the protected-resource metadata; "" when not given.
        scopes: that the request needs.
    """

    metadata_url: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthServerMetadata:
    """The endpoints of an authorization server, and what it supports.

    Attributes:
        token_url: the endpoint.
        issuer: the authorization server; "" where it was not asked.
        methods: client authentication that it takes; empty: it does not say.
        scopes: what the upstream says that it supports.
        resource: identifier of the upstream (RFC 8707).
        login_url: where a person is sent; "": nowhere.
        register_url: where clients register; "": nowhere.
        pkce: whether S256 code challenges are taken.
        says_issuer: whether it names itself when it sends a person back (RFC 9207).
        takes_documents: whether a client may be known by its metadata document.
        refreshes: whether it knows the scope `offline_access`.
        revoke_url: where tokens are given back; "": nowhere.
        role: what callers are told that it is, who are not told its URLs.
    """

    token_url: str
    issuer: str = ""
    methods: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    resource: str = ""
    login_url: str = ""
    register_url: str = ""
    pkce: bool = False
    says_issuer: bool = False
    takes_documents: bool = False
    refreshes: bool = False
    revoke_url: str = ""
    role: str = AUTHORIZATION_SERVER


def challenge_of(header: str | None) -> Challenge:
    """The Bearer challenge in a `WWW-Authenticate` header, as far as it can be read."""
    if header is None or "bearer" not in header.lower():
        return Challenge()
    found = {
        name.lower(): _ESCAPED.sub(r"\1", quoted) if quoted else bare
        for name, quoted, bare in _PARAMETER.findall(header)
    }
    return Challenge(found.get("resource_metadata", ""), tuple(found.get("scope", "").split()))


def canonical(url: URL) -> str:
    """The resource identifier of an endpoint: no query, no fragment, no slash for an empty path."""
    plain = str(url.with_query(None).with_fragment(None).with_user(None))
    return plain.rstrip("/") if url.path == "/" else plain


async def discover(
    url: URL, challenge: Challenge, issuer: str, known: str, fetch: Fetch
) -> AuthServerMetadata:
    """Find the authorization server of the upstream at `url`, and its endpoints.

    Args:
        url: the upstream's endpoint.
        challenge: what it answered.
        issuer: the configured authorization server; "": the one that the upstream names.
        known: the one that it named before; another one is not believed.
        fetch: fetches JSON objects.

    Raises:
        Undiscovered: nothing usable was found.
    """
    resource = await _resource(url, challenge, fetch)
    named = [name for name in texts(resource.get("authorization_servers")) if name]
    wanted = issuer or known
    if wanted:
        if named and not any(
            same_issuer(wanted, name) or stands_for(name, issuer) for name in named
        ):
            raise Undiscovered(
                f"it names the authorization server {shown(named[0])}, not {wanted!r}; the "
                "credentials are for the latter (auth.issuer)"
            )
        chosen = wanted
    elif named:
        chosen = named[0]
    else:  # as servers before 2025-06-18 do: they give out tokens themselves
        chosen = str(url.origin())
    if chosen != issuer and not may_carry_secrets(chosen, url):
        raise Undiscovered(f"its authorization server {shown(chosen)} is not reached over https")
    try:
        server = await server_metadata(chosen, fetch)
    except CannotAnswer:
        raise
    except Undiscovered as error:
        raise Undiscovered(f"{error}; give 'auth.token_url' or 'auth.issuer'") from None
    return usable_metadata(server, url, issuer, resource)


def usable_metadata(
    server: Mapping[str, Any], url: URL, issuer: str, resource: Mapping[str, Any] | None
) -> AuthServerMetadata:
    """The endpoints in an authorization server's metadata.

    Args:
        server: the metadata.
        url: of whoever named the server.
        issuer: as configured, else "". Of such a one it is believed that it takes S256, unless it
            says otherwise: Entra and Cognito do, and say nothing.
        resource: metadata of what the token is for; None: for nothing but the server itself.

    Raises:
        Undiscovered: they name no usable endpoints.
    """
    token_url = server.get("token_endpoint")
    if not isinstance(token_url, str):
        raise Undiscovered(f"the metadata of {shown(server.get('issuer'))} name no token_endpoint")
    if not (may_carry_secrets(token_url, url) or issuer.startswith("http://")):
        raise Undiscovered(f"the token_endpoint {shown(token_url)} is not reached over https")
    for key in ("authorization_endpoint", "registration_endpoint", "revocation_endpoint"):
        place = text(server.get(key))
        if place and not (may_carry_secrets(place, url) or issuer.startswith("http://")):
            raise Undiscovered(f"the {key} {shown(place)} is not reached over https")
    challenges = server.get("code_challenge_methods_supported")
    return AuthServerMetadata(
        token_url,
        text(server.get("issuer")),
        tuple(texts(server.get("token_endpoint_auth_methods_supported"))),
        tuple(texts((resource or {}).get("scopes_supported"))),
        "" if resource is None else text(resource.get("resource")) or canonical(url),
        login_url=text(server.get("authorization_endpoint")),
        register_url=text(server.get("registration_endpoint")),
        pkce="S256" in texts(challenges) or (bool(issuer) and challenges is None),
        says_issuer=server.get("authorization_response_iss_parameter_supported") is True,
        takes_documents=server.get("client_id_metadata_document_supported") is True,
        refreshes="offline_access" in texts(server.get("scopes_supported")),
        revoke_url=text(server.get("revocation_endpoint")),
    )


async def _resource(url: URL, challenge: Challenge, fetch: Fetch) -> Mapping[str, Any]:
    """The upstream's protected-resource metadata; empty where it has none."""
    origin = url.origin()
    places: list[str] = []
    given = challenge.metadata_url
    # Elsewhere they could make the gateway fetch what only it can reach.
    if given and _origin(given) == origin:
        places.append(given)
    if url.path not in ("", "/"):
        places.append(f"{origin}{_RESOURCE}{url.raw_path}")
    places.append(f"{origin}{_RESOURCE}")
    for place in dict.fromkeys(places):
        try:
            found = await fetch(place)
        except CannotAnswer:
            continue
        if found is None:
            continue
        said = text(found.get("resource"))
        if said and not _covers(said, url):
            raise Undiscovered(
                f"its metadata at {place} are about {shown(said)}, not {canonical(url)!r}"
            )
        return found
    return {}


def may_carry_secrets(place: str, upstream: URL) -> bool:
    """Whether a URL that an upstream names is https (or on this machine, as the upstream is)."""
    try:
        named = URL(readable(place))
    except ValueError:
        return False
    if not named.raw_host or not place.isprintable():
        return False
    if named.scheme == "https":
        return True
    return named.scheme == "http" and named.raw_host in LOOPBACK and upstream.raw_host in LOOPBACK


def _origin(url: str) -> URL | None:
    try:
        return URL(readable(url)).origin()
    except ValueError:
        return None


def _covers(resource: str, url: URL) -> bool:
    """Whether a resource identifier is the endpoint's, or that of a parent path."""
    try:
        named = URL(readable(resource))
    except ValueError:
        return False
    if _origin(resource) != url.origin():
        return False
    path = named.path.rstrip("/")
    return url.path.rstrip("/") == path or url.path.startswith(f"{path}/")


def is_at(resource: str, url: URL) -> bool:
    """Whether a resource identifier belongs to the server at a URL, which may have
    moved to https.
    """
    try:
        named = URL(readable(resource))
    except ValueError:
        return False
    if named.scheme != url.scheme:
        return named.raw_host == url.raw_host
    return _origin(resource) == url.origin()
