"""A provider whose clock is five minutes off: what still works, and what a person is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from armory.testing.identity import EXCHANGE
from armory.testing.oauth_client import App
from armory.testing.people import World

pytestmark = pytest.mark.anyio
OFF_S = 300


def exchange(world: World) -> dict[str, str]:
    """The block `auth` of the upstream."""
    return {"type": "token_exchange", **world.client, "audience": world.upstream.url}


def proxy(world: World) -> dict[str, Any]:
    """The block `security.oauth`, with the gateway in front of the provider."""
    behind = {**world.client, "id_jag_issuers": [world.provider.issuer]}
    return {"scopes": ["mcp:use"], "proxy": behind}


async def opened(world: World, url: str, token: str) -> bool:
    """Whether the gateway lets somebody in."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    async with world.http.post(f"{url}/mcp", json=body, headers=headers) as response:
        return response.status != 401


@pytest.mark.parametrize("ahead_s", [OFF_S, -OFF_S])
async def test_tokens_are_exchanged_once_and_kept_by_the_gateways_own_clock(
    world: World, ahead_s: int
) -> None:
    world.provider.ahead_s = ahead_s
    oauth = {"issuer": world.provider.issuer, "clock_skew_s": OFF_S + 30}
    async with world.gateway(exchange(world), oauth=oauth) as (url, _):
        ann = world.provider.sign(sub="ann", aud=f"{url}/mcp")
        for _ in range(3):
            said = await world.ask(url, ann)
            assert said["result"]["content"][0]["text"] == "ann: "
        assert [form["grant_type"] for form in world.provider.forms] == [EXCHANGE]


async def test_without_leave_a_token_of_the_future_is_refused_and_the_log_says_why(
    world: World,
) -> None:
    world.provider.ahead_s = OFF_S
    async with world.gateway(oauth={"issuer": world.provider.issuer}) as (url, _):
        with capture_logs() as logs:
            assert not await opened(world, url, world.provider.sign(aud=f"{url}/mcp"))
        (told,) = [entry for entry in logs if entry["event"] == "clocks_apart"]
        assert OFF_S - 2 <= told["ahead_s"] <= OFF_S
        # one that is behind costs five minutes of a token's life, and nothing else
        world.provider.ahead_s = -OFF_S
        assert await opened(world, url, world.provider.sign(aud=f"{url}/mcp"))
        world.provider.lifetime = OFF_S - 60
        assert not await opened(world, url, world.provider.sign(aud=f"{url}/mcp"))


async def logged_in(world: World, url: str) -> Mapping[str, str]:
    """With what somebody comes back from a login."""
    async with App(url) as app:
        await app.register()
        return await app.log_in()


async def vouched_for(world: World, url: str) -> Mapping[str, str]:
    """What a client gets whose person the provider vouches for."""
    async with App(url) as app:
        await app.register()
        grant = world.provider.sign(
            "oauth-id-jag+jwt", aud=url, client_id=app.client_id, jti=app.client_id,
            resource=f"{url}/mcp", scope="mcp:use",
        )  # fmt: skip
        kind = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return (await app.token(grant_type=kind, assertion=grant))[1]


@pytest.mark.parametrize(("way", "wanted"), [(logged_in, "code"), (vouched_for, "access_token")])
async def test_a_login_that_a_clock_prevents_says_so(
    world: World, way: Callable[..., Any], wanted: str
) -> None:
    world.provider.ahead_s = OFF_S
    async with world.gateway(oauth=proxy(world)) as (url, _):
        told = (await way(world, url))["error_description"]
        assert "is ahead of the gateway's" in told
        assert "security.oauth.clock_skew_s" in told
        assert world.provider.issuer in told
    async with world.gateway(oauth={**proxy(world), "clock_skew_s": OFF_S + 30}) as (url, _):
        assert wanted in await way(world, url)
        world.provider.ahead_s = -OFF_S
        assert wanted in await way(world, url)
