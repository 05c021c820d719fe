"""The gateway as an OAuth resource: what clients are told, and whose tokens open which endpoint."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from yarl import URL

from armory.security.authentication import Authenticator, ProtectedResource
from armory.security.issuer import Issuer
from armory.security.oauth import OAuthScheme
from armory.security.settings import OAuthSettings
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import serving
from armory.testing.identity import IdentityProvider
from armory.wire.settings import HttpSettings

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
METADATA = "/.well-known/oauth-protected-resource"


@pytest.fixture
async def provider() -> AsyncGenerator[IdentityProvider]:
    async with IdentityProvider() as found:
        yield found


@asynccontextmanager
async def guarded(
    front: Front,
    provider: IdentityProvider,
    *,
    needs: tuple[str, ...] = (),
    implied: dict[str, list[str]] | None = None,
    **settings: Any,
) -> AsyncGenerator[str]:
    oauth = OAuthSettings([provider.issuer], scopes=needs, implied_scopes=implied or {})
    checks = Authenticator(
        (),
        [OAuthScheme(oauth, [Issuer(provider.issuer)])],
        allow_anonymous=False,
        protected=ProtectedResource((provider.issuer,), needs),
    )
    async with serving(front.gateway, checks, HttpSettings(**settings)) as (url, _):
        yield url


async def asked(front: Front, url: str, token: str = "", **headers: str) -> tuple[int, str]:
    """(status, challenge) of one request."""
    body = modern_body(1, "tools/list")
    every = {**modern_headers(body), **headers}
    if token:
        every["Authorization"] = f"Bearer {token}"
    async with front.http.post(url, json=body, headers=every) as response:
        return response.status, response.headers.get("WWW-Authenticate", "")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/new", "/mcp/set/clocks", "/sse"])
async def test_each_endpoint_says_where_to_log_in(
    front: Front, provider: IdentityProvider, path: str
) -> None:
    async with guarded(front, provider, needs=("mcp:use",)) as url:
        async with front.http.get(url + path) as response:
            challenge = response.headers["WWW-Authenticate"]
            assert response.status == 401
        assert challenge == f'Bearer scope="mcp:use", resource_metadata="{url}{METADATA}{path}"'
        async with front.http.get(url + METADATA + path) as response:
            document = await response.json()
            assert response.headers["Access-Control-Allow-Origin"] == "*"
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
        asked["Access-Control-Request-Headers"] = "mcp-protocol-version"
        async with front.http.options(url + METADATA + path, headers=asked) as response:
            assert response.status == 204  # else a client in a browser sees nothing of it
            assert response.headers["Access-Control-Allow-Headers"] == "*"
            assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert document["resource"] == url + path
    assert document["authorization_servers"] == [provider.issuer]
    assert document["scopes_supported"] == ["mcp:use"]


@pytest.mark.parametrize("name", ["a%22,%20resource_metadata=%22x", "%0d%0aX-Evil:%201", "%ff"])
async def test_a_challenge_says_nothing_that_a_link_put_into_it(
    front: Front, provider: IdentityProvider, name: str
) -> None:
    async with (
        guarded(front, provider) as url,
        front.http.post(URL(f"{url}/mcp/{name}", encoded=True)) as response,
    ):
        assert response.status == 401
        assert "X-Evil" not in response.headers
        challenge = response.headers["WWW-Authenticate"]
    assert re.fullmatch(r'Bearer resource_metadata="[^"]+"', challenge), challenge


async def test_the_root_form_is_the_whole_gateway(front: Front, provider: IdentityProvider) -> None:
    async with guarded(front, provider) as url:
        async with front.http.get(url + METADATA) as response:
            assert (await response.json())["resource"] == f"{url}/mcp"
        for path in ("/admin", "/mcp/../healthz", "/mcp/a/b", "//evil.example/mcp"):
            async with front.http.get(url + METADATA + path) as response:
                assert response.status == 404


async def test_behind_a_proxy_and_below_a_path_the_url_is_the_outer_one(
    front: Front, provider: IdentityProvider
) -> None:
    more: dict[str, Any] = {"trusted_proxies": ["127.0.0.1"], "allowed_hosts": ["tools.example"]}
    outer = {"X-Forwarded-Host": "Tools.example:443", "X-Forwarded-Proto": "https"}
    own = "https://tools.example/armory/mcp"
    async with guarded(front, provider, base_path="/armory", **more) as url:
        status, challenge = await asked(front, f"{url}/armory/mcp", **outer)
        found = re.search(r'resource_metadata="([^"]+)"', challenge)
        assert found is not None
        assert (status, found[1]) == (401, f"https://tools.example/armory{METADATA}/mcp")
        for path in (f"{METADATA}/armory/mcp", f"/armory{METADATA}/mcp"):
            async with front.http.get(url + path, headers=outer) as response:
                assert (await response.json())["resource"] == own
        assert (await asked(front, f"{url}/armory/mcp", provider.sign(aud=own), **outer))[0] == 200
        inner = provider.sign(aud=f"{url}/armory/mcp")
        assert (await asked(front, f"{url}/armory/mcp", inner, **outer))[0] == 401


@pytest.mark.parametrize("base", ["", "/armory"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/new", "/mcp/set/clocks", "/sse"])
async def test_a_slash_at_the_end_of_an_endpoint_makes_no_difference(
    front: Front, provider: IdentityProvider, base: str, path: str
) -> None:
    async with guarded(front, provider, base_path=base) as url:
        async with front.http.get(f"{url}{base}{path}/") as response:
            challenge = response.headers["WWW-Authenticate"]
            assert response.status == 401
        assert challenge == f'Bearer resource_metadata="{url}{base}{METADATA}{path}"'
        for metadata in (f"{METADATA}{base}{path}/", f"{base}{METADATA}{path}/"):
            async with front.http.get(url + metadata) as response:
                assert (await response.json())["resource"] == f"{url}{base}{path}"
        if path == "/sse":
            return
        for audience in (f"{url}{base}{path}", f"{url}{base}{path}/"):
            token = provider.sign(aud=audience)
            for written in (path, f"{path}/"):
                assert (await asked(front, f"{url}{base}{written}", token))[0] == 200
        elsewhere = provider.sign(aud=f"{url}{base}/mcp/old")
        assert (await asked(front, f"{url}{base}{path}/", elsewhere))[0] == 401


async def test_a_token_opens_the_endpoint_that_it_is_for(
    front: Front, provider: IdentityProvider
) -> None:
    async with guarded(front, provider) as url:
        token = provider.sign(aud=f"{url}/mcp/new")
        assert (await asked(front, f"{url}/mcp/new", token))[0] == 200
        for other in ("/mcp", "/mcp/old", "/mcp/set/clocks"):
            status, challenge = await asked(front, url + other, token)
            assert status == 401
            assert 'error="invalid_token"' in challenge


async def test_a_name_that_goes_on_behind_its_port_is_not_the_gateways(
    front: Front, provider: IdentityProvider
) -> None:
    """At `https://tools.example:443@evil.example` evil.example is asked, and what is before the
    `@` is a user: it may have tokens for itself by that URL, which open nothing here.
    """
    async with guarded(front, provider, allowed_hosts=["tools.example"]) as url:
        for name in ("tools.example", "127.0.0.1"):
            other = f"{name}:443@evil.example"
            token = provider.sign(aud=f"http://{other}/mcp")
            assert (await asked(front, f"{url}/mcp", token, Host=other))[0] == 403
        token = provider.sign(aud="http://tools.example:8443/mcp")
        assert (await asked(front, f"{url}/mcp", token, Host="tools.example:8443"))[0] == 200


async def test_a_host_that_the_sender_chose_proves_nothing(
    front: Front, provider: IdentityProvider
) -> None:
    stolen = provider.sign(aud="http://evil.example/mcp")
    for host, known in (("0.0.0.0", []), ("0.0.0.0", ["*"]), ("127.0.0.1", ["*"])):
        async with guarded(front, provider, host=host, allowed_hosts=known) as url:
            assert (await asked(front, f"{url}/mcp", stolen, Host="evil.example"))[0] == 401
    async with guarded(front, provider) as url:
        assert (await asked(front, f"{url}/mcp", stolen, Host="evil.example"))[0] == 403
        async with front.http.get(url + METADATA, headers={"Host": "evil.example"}) as response:
            assert response.status == 403


async def test_too_few_scopes_are_told_all_at_once(
    front: Front, provider: IdentityProvider
) -> None:
    async with guarded(front, provider, needs=("mcp:use", "mcp:read")) as url:
        few = provider.sign(aud=f"{url}/mcp", scope="mcp:use")
        status, challenge = await asked(front, f"{url}/mcp", few)
        assert status == 403
        assert 'error="insufficient_scope", scope="mcp:use mcp:read"' in challenge
        all_of_them = provider.sign(aud=f"{url}/mcp", scope="mcp:read mcp:use other")
        assert (await asked(front, f"{url}/mcp", all_of_them))[0] == 200


async def test_a_broader_scope_implies_narrower_ones(
    front: Front, provider: IdentityProvider
) -> None:
    implied = {"mcp:all": ["mcp:use", "mcp:read"]}
    async with guarded(front, provider, needs=("mcp:use", "mcp:read"), implied=implied) as url:
        broad = provider.sign(aud=f"{url}/mcp", scope="mcp:all")
        assert (await asked(front, f"{url}/mcp", broad))[0] == 200
        other = provider.sign(aud=f"{url}/mcp", scope="mcp:al")
        assert (await asked(front, f"{url}/mcp", other))[0] == 403


async def test_a_provider_that_is_down_is_told_apart_from_a_bad_token(
    front: Front, provider: IdentityProvider
) -> None:
    provider.away = True
    async with guarded(front, provider) as url:
        assert (await asked(front, f"{url}/mcp", provider.sign(aud=f"{url}/mcp")))[0] == 503


async def test_a_token_in_the_url_is_none(front: Front, provider: IdentityProvider) -> None:
    async with guarded(front, provider) as url:
        token = provider.sign(aud=f"{url}/mcp")
        assert (await asked(front, f"{url}/mcp?access_token={token}"))[0] == 401
