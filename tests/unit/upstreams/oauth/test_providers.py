"""Providers that want of their clients what their metadata do not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from yarl import URL

from armory.errors import UpstreamUnavailable
from armory.oauth.metadata import Undiscovered
from armory.upstreams.oauth.code_flow import CodeFlow
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, discover
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.providers import resource_for
from tests.unit.upstreams.oauth.conftest import REDIRECT, Rig

pytestmark = pytest.mark.anyio
MCP = URL("https://tools.example/mcp")
GOOGLE = "https://accounts.google.com"
ENTRA = "https://login.microsoftonline.com/a-tenant"


class At(CodeFlow):
    """Logins at an authorization server that says what is given."""

    def __init__(self, place: AuthServerMetadata, *scopes: str) -> None:
        super().__init__("docs", AuthorizationCode("armory", scopes=scopes))
        self.place = place

    async def discover_server(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        return self.place

    async def asked(self) -> Mapping[str, str]:
        """What the page is asked for."""
        begun = await self.begin(MCP, Challenge(), REDIRECT)
        return URL(begun.login_url).query


def google(**query: str) -> AuthServerMetadata:
    login = str(URL(f"{GOOGLE}/o/oauth2/v2/auth").with_query(query))
    token = "https://oauth2.googleapis.com/token"
    return AuthServerMetadata(token, GOOGLE, resource=str(MCP), login_url=login, pkce=True)


async def test_google_is_asked_for_a_refresh_token() -> None:
    asked = await At(google(), "a-scope").asked()
    assert (asked["access_type"], asked["prompt"]) == ("offline", "consent")
    assert (asked["scope"], asked["resource"]) == ("a-scope", str(MCP))
    asked = await At(google(prompt="select_account")).asked()
    assert (asked["access_type"], asked["prompt"]) == ("offline", "select_account")
    elsewhere = replace(google(), login_url="https://accounts.google.com.evil.example/auth")
    assert "access_type" not in await At(elsewhere).asked()


async def test_entra_is_told_by_scopes_what_a_token_is_for() -> None:
    place = AuthServerMetadata(
        f"{ENTRA}/oauth2/v2.0/token", f"{ENTRA}/v2.0", resource=str(MCP),
        login_url=f"{ENTRA}/oauth2/v2.0/authorize", pkce=True, refreshes=True,
    )  # fmt: skip
    asked = await At(place, "api://an-app/.default").asked()
    assert asked["scope"] == "api://an-app/.default offline_access"
    assert "resource" not in asked
    assert (await At(place).asked())["resource"] == str(MCP)  # the scopes are the upstream's choice
    assert resource_for("https://as.example/token", str(MCP), ("a",)) == {"resource": str(MCP)}


@pytest.mark.parametrize(
    ("named", "configured", "found"),
    [
        ("https://login.microsoftonline.com/organizations/v2.0", f"{ENTRA}/v2.0", True),
        ("https://login.microsoftonline.com/common/v2.0", f"{ENTRA}/v2.0", True),
        ("https://login.microsoftonline.com/another/v2.0", f"{ENTRA}/v2.0", False),
        ("https://login.evil.example/common/v2.0", f"{ENTRA}/v2.0", False),
        ("https://login.microsoftonline.com/common/v2.0", "https://idp.example/v2.0", False),
        ("https://[common/v2.0", f"{ENTRA}/v2.0", False),
        ("https://login.microsoftonline.com/common/v2.0", "", False),
    ],
)
async def test_entra_for_every_tenant_is_the_configured_one(
    named: str, configured: str, found: bool
) -> None:
    resource = {"resource": str(MCP), "authorization_servers": [named]}

    async def fetch(url: str) -> Mapping[str, Any] | None:
        if url.startswith(str(MCP.origin())):
            return resource
        if url.endswith("/openid-configuration") and "/common/" in url:
            return {"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}
        if url == f"{ENTRA}/v2.0/.well-known/openid-configuration":
            return {"issuer": f"{ENTRA}/v2.0", "token_endpoint": f"{ENTRA}/oauth2/v2.0/token"}
        return None

    if found:
        place = await discover(MCP, Challenge(), configured, "", fetch)
        assert (place.issuer, place.pkce) == (f"{ENTRA}/v2.0", True)
    else:
        with pytest.raises(Undiscovered):
            await discover(MCP, Challenge(), configured, "", fetch)


async def test_of_a_configured_issuer_that_says_nothing_of_challenges_s256_is_believed(
    rig: Rig,
) -> None:
    """As Entra and Cognito are."""
    rig.world.takes_people(code_challenge_methods_supported=None)
    with pytest.raises(UpstreamUnavailable, match=r"S256 code challenges; .*'auth\.issuer'"):
        await rig.log_in()
    rig.grant = replace(rig.grant, issuer=rig.world.issuer)
    await rig.log_in()
    assert rig.world.requests[-1]["code_verifier"]


async def test_what_named_itself_before_is_asked_though_entra_is_named_now() -> None:
    async def fetch(url: str) -> Mapping[str, Any] | None:
        named = "https://login.microsoftonline.com/common/v2.0"
        return {"authorization_servers": [named]} if "protected-resource" in url else None

    with pytest.raises(Undiscovered, match="the credentials are for the latter"):
        await discover(MCP, Challenge(), "", "https://as.example", fetch)


async def test_an_upstream_that_names_nobody_gives_out_tokens_itself() -> None:
    """As one whose setting for it is empty."""
    here = str(MCP.origin())

    async def fetch(url: str) -> Mapping[str, Any] | None:
        if "protected-resource" in url:
            return {"authorization_servers": [""]}
        return {"issuer": here, "token_endpoint": f"{here}/token"}

    assert (await discover(MCP, Challenge(), "", "", fetch)).issuer == here
