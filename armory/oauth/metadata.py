"""Metadata of authorization servers: RFC 8414 and OpenID Connect discovery.

Owns: where the document is looked for, and that its issuer must be the one that was asked for.
Never sees a secret; never imports the protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from yarl import URL

from armory.domain.encoding import is_encodable
from armory.domain.hosts import LOOPBACK
from armory.domain.uris import readable

Fetch = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""Fetches a JSON object; None where there is none. May raise `CannotAnswer`."""

_SHOWN_CHARS = 200
_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


class Undiscovered(Exception):
    """The metadata cannot be found or trusted; the message says why."""


class CannotAnswer(Undiscovered):
    """The server exists, and cannot answer now."""


async def server_metadata(issuer: str, fetch: Fetch) -> Mapping[str, Any]:
    """The metadata of an authorization server, which must name `issuer` as its issuer.

    Raises:
        Undiscovered: it publishes none, or somebody else's; `CannotAnswer`: it does not say.
    """
    base = URL(issuer)
    origin, path = str(base.origin()), base.raw_path.rstrip("/")
    places = [f"{origin}{_SERVER}{path}", f"{origin}{_OPENID}{path}"]
    if path:
        places.append(f"{origin}{path}{_OPENID}")
    failed: CannotAnswer | None = None
    for place in places:
        try:
            found = await fetch(place)
        except CannotAnswer as error:
            failed = failed or error
            continue
        if found is None:
            continue
        said = text(found.get("issuer"))
        if not same_issuer(said, issuer):
            raise Undiscovered(
                f"the metadata at {place} are of issuer {shown(said)}, not {issuer!r}"
            )
        return found
    try:
        if failed is not None:
            raise failed
    finally:
        del failed  # which holds this frame by its trace
    raise Undiscovered(f"the authorization server {shown(issuer)} publishes no metadata")


def same_issuer(one: str, other: str) -> bool:
    """Whether two strings name the same issuer; a trailing slash is ignored, since it is often
    forgotten.
    """
    return one.rstrip("/") == other.rstrip("/")


def resource_id(url: str) -> str:
    """A resource identifier in comparable form: scheme and host in lower case."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}" if mark else url


def is_secure(url: str) -> bool:
    """Whether a URL is https, or http on this machine."""
    try:
        named = URL(readable(url))
    except ValueError:
        return False
    return bool(named.raw_host and url.isprintable()) and (
        named.scheme == "https" or (named.scheme == "http" and named.raw_host in LOOPBACK)
    )


def text(value: object) -> str:
    """A string; "" for any other value, and for one with a lone surrogate, which cannot
    be encoded.
    """
    return value if isinstance(value, str) and is_encodable(value) else ""


def texts(value: object) -> list[str]:
    """The strings in a list; empty for any other value."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [entry for entry in listed if isinstance(entry, str) and is_encodable(entry)]


def shown(value: object) -> str:
    """What a server says, for a message: the beginning of a text."""
    return repr(text(value)[:_SHOWN_CHARS])
