"""What Google and Entra want of their clients and do not say in their metadata.

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
    """What the page of a provider is asked for beside what OAuth has.

    Google knows no scope `offline_access`: only who asks so is given a refresh token, and only
    when the person agrees anew.
    """
    if login_url.host != _GOOGLE:
        return {}
    return {name: said for name, said in _OFFLINE.items() if name not in login_url.query}


def resource_for(token_url: str, resource: str, scopes: Sequence[str]) -> dict[str, str]:
    """The parameter `resource` (RFC 8707), where there is one to send.

    Entra says by scopes what a token is for (`api://.../.default`), and refuses a `resource` that
    is called otherwise (AADSTS9010010). It is left out where the operator named the scopes; were
    they the upstream's choice, it could ask for a token for somebody else.

    Args:
        token_url: of the authorization server.
        resource: that the token is to be for; "": the server itself.
        scopes: as configured.
    """
    if not resource or (scopes and URL(token_url).host in _ENTRA):
        return {}
    return {"resource": resource}


def stands_for(named: str, configured: str) -> bool:
    """Whether an upstream that names Entra for every tenant may mean the configured one: there is
    no issuer of that name.
    """
    try:
        every, one = URL(named), URL(configured)
    except ValueError:
        return False
    of_any = every.parts[1:2] in [(tenant,) for tenant in _ANY_TENANT]
    return of_any and every.host in _ENTRA and (every.scheme, every.host) == (one.scheme, one.host)
