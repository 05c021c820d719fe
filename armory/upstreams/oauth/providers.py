"""What Google and Entra require of clients beyond OAuth and their metadata.

Owns: how Google is asked for a refresh token, and when Entra is not told a `resource`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from yarl import URL

_GOOGLE = "accounts.google.com"
_OFFLINE = {"access_type": "offline", "prompt": "consent"}
_ENTRA = (
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.partner.microsoftonline.cn",
)
_ANY_TENANT = ("common", "organizations", "consumers")


def login_parameters(login_url: URL) -> dict[str, str]:
    """Extra parameters for the login page of a provider.

    Google does not know the scope `offline_access`: a refresh token needs `access_type=offline`,
    and a person who agrees anew.
    """
    if login_url.raw_host != _GOOGLE:
        return {}
    return {name: said for name, said in _OFFLINE.items() if name not in login_url.query}


def resource_for(token_url: str, resource: str, scopes: Sequence[str]) -> dict[str, str]:
    """The form's member `resource` (RFC 8707), as a mapping; empty where none is sent.

    Entra says by scopes what a token is for (`api://.../.default`), and refuses a `resource` that
    is called otherwise (AADSTS9010010). It is left out where the operator named the scopes; were
    they the upstream's choice, it could ask for a token for somebody else.

    Args:
        token_url: of the authorization server.
        resource: that the token is to be for; "": the server itself.
        scopes: as configured.
    """
    if not resource or (scopes and URL(token_url).raw_host in _ENTRA):
        return {}
    return {"resource": resource}


def stands_for(named: str, configured: str) -> bool:
    """Whether an upstream that names Entra's multi-tenant issuer may mean the configured tenant: no
    issuer has the multi-tenant name.
    """
    try:
        every, one = URL(named), URL(configured)
    except ValueError:
        return False
    of_any = every.parts[1:2] in [(tenant,) for tenant in _ANY_TENANT]
    same = (every.scheme, every.raw_host) == (one.scheme, one.raw_host)
    return of_any and every.raw_host in _ENTRA and same
