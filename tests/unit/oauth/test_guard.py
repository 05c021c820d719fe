"""No document makes the gateway reach what only it can reach."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from aiohttp import web

from armory.errors import BackendError
from armory.oauth.exchange import NoAnswer, Route, exchange
from armory.oauth.guard import is_public, must_be_public
from armory.security.issuer import Issuer
from armory.security.settings import IntrospectionSettings
from armory.testing.listening import listening
from armory.upstreams.oauth.client import NoToken
from armory.upstreams.oauth.code_flow import CodeFlow
from armory.upstreams.oauth.grants import AuthorizationCode

pytestmark = pytest.mark.anyio
OUTSIDE = "https://8.8.8.8/mcp"


@pytest.fixture
async def inside() -> AsyncGenerator[tuple[str, list[str]]]:
    """(URL, what was asked for) of something that only this machine reaches."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"active": True})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner, url = await listening(app)
    yield url, asked
    await runner.cleanup()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "255.255.255.255", "224.0.0.1", "224.0.1.1", "240.0.0.1", "192.0.2.1",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1",
        "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
        "2002:a00:1::",
        "2001:0:53aa:64c:0:0:80ff:fffe", "fec0::1", "localhost", "",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_network_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_internet_are(address: str) -> None:
    assert is_public(address)


async def test_who_is_outside_may_not_point_inside() -> None:
    assert await must_be_public("https://10.0.0.1/jwks", [OUTSIDE])
    assert await must_be_public("https://10.0.0.1/jwks", [])
    assert await must_be_public("https://10.0.0.1/jwks", ["http://127.0.0.1:1", OUTSIDE])
    assert not await must_be_public("https://8.8.8.8/jwks", [OUTSIDE])
    assert not await must_be_public("https://10.0.0.1/jwks", ["http://127.0.0.1:1"])


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "0x7f000001", "2130706433"])
async def test_the_address_of_the_connection_counts(
    inside: tuple[str, list[str]], name: str
) -> None:
    url, asked = inside
    there = url.replace("127.0.0.1", name)
    with pytest.raises(NoAnswer, match=r"did not answer|at no public address"):
        await exchange("GET", f"{there}/x?secret", route=Route(named=(OUTSIDE,)))
    assert asked == []
    assert (await exchange("GET", f"{url}/x", route=Route(named=(url,)))).status == 200
    assert asked == ["/x"]


async def test_an_upstream_that_is_outside_cannot_have_the_gateway_ask_inside(
    inside: tuple[str, list[str]],
) -> None:
    url, asked = inside
    flow = CodeFlow("docs", AuthorizationCode(), named=(OUTSIDE,))
    with pytest.raises(NoToken, match="at no public address"):
        await flow.fetch(f"{url}/.well-known/oauth-authorization-server")
    with pytest.raises(NoToken, match="at no public address"):
        await flow.request("POST", f"{url}/token", {}, {"code": "x"})
    assert asked == []


async def test_an_issuer_that_is_outside_cannot_have_the_gateway_ask_inside(
    inside: tuple[str, list[str]],
) -> None:
    url, asked = inside
    name = "https://8.8.8.8"

    async def metadata(place: str) -> bytes:
        assert place.startswith(name)
        said = {"issuer": name, "introspection_endpoint": f"{url}/introspect"}
        return web.json_response(said).body  # type: ignore[return-value]

    issuer = Issuer(name, fetch=metadata)
    with pytest.raises(BackendError, match="at no public address"):
        await issuer.introspect("a-token", IntrospectionSettings("armory", "a-secret"))
    assert asked == []
    named = IntrospectionSettings("armory", "a-secret", f"{url}/introspect")
    assert await issuer.introspect("a-token", named) == {"active": True}


async def test_keys_that_are_inside_are_not_fetched_for_an_issuer_outside(
    inside: tuple[str, list[str]],
) -> None:
    from armory.security.keys import fetch

    url, asked = inside
    with pytest.raises(BackendError, match="at no public address"):
        await fetch(f"{url}/jwks", named=("https://8.8.8.8",))
    assert asked == []
