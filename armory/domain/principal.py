"""The principal: the authenticated caller.

Owns: identity as a value. Never imports anything but the standard library.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

Method = Literal["anonymous", "token", "api_key", "jwt", "oauth", "environment", "internal"]

OWNER_CHARS = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_READABLE_CHARS = 40
_PLAIN = re.compile(r"[A-Za-z0-9_]+(?:[.@|:+-][A-Za-z0-9_]+){0,5}")
"""Names whose readable form is nearly unique: at most five of their characters become `-`."""
_BRIEF, _LONG = 8, 32
"""Digits of the digest behind a plain name, and behind any other.

Anybody could make so many other names with the same readable form that one of them has the short
digest of somebody else.
"""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    Attributes:
        subject: unique, stable name of the credential's owner within its method.
        user: the account that usage and packs belong to; None for callers without one.
        scopes: what the credential grants.
        method: how the caller proved who it is.
        expires_at: seconds since 1970 from which on the credential is invalid; None: never. It
            does not count for equality, since a renewed credential is the same principal; nor do
            the attributes below.
        audience: URLs of the endpoints that the credential is for; None: all.
        credential: the access token, to be exchanged for one for an upstream; None: the credential
            is no access token.
        id_token: the ID token of the provider behind the gateway, to be exchanged likewise; "": the
            provider gave none; None: the gateway did not log the caller in.
        delegated: whether the credential belongs to a program that the person let in for an
            endpoint, rather than to the gateway's own console.
        key: unique over all methods; sessions, caches and parked calls are bound to it.
        person: the user, whatever the credential, or else the principal itself; unique as well.
            Logins at upstreams belong to it, and limits count by it.
        owner: the name under which usage is stored: the user, or else the principal itself;
            printable, at most 200 characters.
    """

    subject: str
    user: str | None = None
    scopes: frozenset[str] = frozenset()
    method: Method = "token"
    expires_at: float | None = field(default=None, compare=False)
    audience: frozenset[str] | None = field(default=None, compare=False)
    credential: str | None = field(default=None, compare=False, repr=False)
    id_token: str | None = field(default=None, compare=False, repr=False)
    delegated: bool = field(default=False, compare=False)
    # made once: each call asks for them several times
    key: str = field(init=False, compare=False, repr=False)
    person: str = field(init=False, compare=False, repr=False)
    owner: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        key = f"{self.method}:{self.subject}"
        name = (self.user or key)[:OWNER_CHARS]
        if not name.isprintable():
            name = "".join(c if c.isprintable() else "?" for c in name)
        person = key if self.user is None else f"user:{self.user}"
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "person", person)
        object.__setattr__(self, "owner", name)

    @property
    def file_safe(self) -> str:
        """A form that is safe in file names, arguments and headers. It is made from the user if
        there is one, whatever the credential, or else from the principal; distinct ones stay
        distinct.
        """
        name = self.user or self.subject
        readable = _UNSAFE.sub("-", name).strip("-")[:_READABLE_CHARS]
        whose = f"user\0{self.user}" if self.user is not None else f"{self.key}\0None"
        plain = len(name) <= _READABLE_CHARS and _PLAIN.fullmatch(name) is not None
        digest = hashlib.sha256(whose.encode()).hexdigest()[: _BRIEF if plain else _LONG]
        return f"{readable}-{digest}" if readable else digest


ANONYMOUS = Principal(subject="anonymous", method="anonymous")
INTERNAL = Principal(subject="armory", method="internal")
