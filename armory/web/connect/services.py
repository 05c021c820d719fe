"""The dependencies of the pages below `/connect`, provided by the runtime.

Owns: the seams. Never asks anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from armory.domain.principal import Principal
from armory.security.authentication import Authenticator
from armory.security.sealing import Seal
from armory.upstreams.oauth.code_flow import BegunLogin
from armory.upstreams.upstream import Upstream
from armory.web.cookies import Hosts


class SignIn(Protocol):
    """Where people log in so that the gateway knows them (`sign_in`, `web.oauth.own_login`)."""

    @property
    def issuer(self) -> str:
        """Issuer identifier of the provider."""
        ...

    @property
    def registers_itself(self) -> bool:
        """Whether the gateway registers itself as a client there, for any redirect URI."""
        ...

    @property
    def says_scopes(self) -> bool:
        """Whether a login gives the person's scopes, not only its identity."""
        ...

    async def begin_here(self, redirect_uri: str) -> BegunLogin:
        """Begin a login; the browser comes back to `redirect_uri`."""
        ...

    async def principal_of(self, begun: BegunLogin, back: Mapping[str, str]) -> Principal:
        """The principal of a completed login, by the callback's parameters `back`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ConnectServices:
    """The dependencies of the pages below `/connect`.

    Attributes:
        upstream: an upstream at which people have accounts, by key; None: there is none such.
        concerns: whether policy lets somebody know of an upstream.
        authenticator: who is it, by the credential of its MCP client.
        seal: of the cookies.
        hosts: host checks.
        sign_in: the gateway at its own issuer; None: there is none.
        base_path: before every route.
    """

    upstream: Callable[[str], Upstream | None]
    concerns: Callable[[Principal, str], bool]
    authenticator: Authenticator
    seal: Seal
    hosts: Hosts
    sign_in: SignIn | None
    base_path: str = ""
