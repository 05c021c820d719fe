"""Access tokens for upstreams: an authorization server, a protected MCP server, and the pool."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Raw
from structlog.testing import capture_logs

from armory.domain.principal import Principal
from armory.errors import ConfigError, UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import plain
from armory.testing.upstreams.oauth import World
from armory.upstreams.oauth.grants import ClientCredentials
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
SECRET = "s3cr/et+of:armory"
GRANT = ClientCredentials("armory id", SECRET)
UNDISCOVERED = "upstream 'kept': no access token: its authorization server could not be discovered"
ANN, BOB = Owner(Principal("ann")), Owner(Principal("bob"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as world:
        yield world


@pytest.fixture
async def pools() -> AsyncIterator[list[Pool]]:
    pools: list[Pool] = []
    yield pools
    for pool in pools:
        await pool.close()


def reach(world: World, pools: list[Pool], grant: ClientCredentials = GRANT) -> Pool:
    pool = Pool([UpstreamSpec("kept", url=f"{world.url}/mcp", auth=grant)])
    pools.append(pool)
    return pool


async def call(pool: Pool, owner: Owner = ANN) -> Any:
    params = {"name": Raw(b'"t"'), "arguments": Raw(b"{}")}
    return plain((await pool.request("kept", owner, Call("tools/call", params))).result)


async def test_the_token_is_found_out_got_once_and_sent_by_all(
    world: World, pools: list[Pool]
) -> None:
    world.scopes_supported = ["read", "write"]
    pool = reach(world, pools)
    with capture_logs() as logs:
        for owner in (ANN, BOB, ANN):
            assert (await call(pool, owner))["content"] == []
    (asked,) = world.requests
    pair = base64.b64decode(asked["basic"].removeprefix("Basic ")).decode()
    assert pair == "armory+id:s3cr%2Fet%2Bof%3Aarmory"
    assert asked["grant_type"] == "client_credentials"
    assert asked["resource"] == f"{world.url}/mcp"
    assert asked["scope"] == "read write"
    assert world.tokens[0] is None
    assert set(world.tokens[1:]) == {"token-1"}
    told = f"{logs} {pool.upstream('kept').spec}"
    assert "s3cr" not in told
    assert "token-1" not in told


async def test_callers_that_come_together_share_one_request(
    world: World, pools: list[Pool]
) -> None:
    pool = reach(world, pools, ClientCredentials("a", SECRET, token_url=f"{world.url}/as/token"))
    await asyncio.gather(*(call(pool) for _ in range(5)))
    assert len(world.requests) == 1


async def test_a_refused_token_is_got_anew_once(world: World, pools: list[Pool]) -> None:
    pool = reach(world, pools)
    await call(pool)
    world.valid.clear()
    await call(pool)
    assert len(world.requests) == 2
    world.valid.clear()
    world.refusal = {"error": "invalid_client", "error_description": "revoked"}
    with pytest.raises(UpstreamUnavailable, match="HTTP 401 invalid_client: revoked") as failed:
        await call(pool)
    assert "s3cr" not in str(failed.value)


@pytest.mark.parametrize("lifetime", ["3599", "soon", "nan", -1, 10**400, []], ids=range(6))
async def test_a_lifetime_that_is_none_costs_no_call(
    world: World, pools: list[Pool], lifetime: Any
) -> None:
    world.lifetime = lifetime
    pool = reach(world, pools)
    for _ in range(3):
        assert (await call(pool))["content"] == []
    assert len(world.requests) == 1


async def test_a_token_is_renewed_before_it_expires(world: World, pools: list[Pool]) -> None:
    world.lifetime = 0
    pool = reach(world, pools)
    await call(pool)
    before = len(world.requests)
    await call(pool)
    assert len(world.requests) == before + 1
    assert world.tokens[1:].count(None) == 0


async def test_secrets_go_where_the_metadata_say(world: World, pools: list[Pool]) -> None:
    world.methods = ["client_secret_post"]
    await call(reach(world, pools, ClientCredentials("armory", SECRET, scopes=("own",))))
    asked = world.requests[-1]
    assert (asked["basic"], asked["client_id"], asked["client_secret"]) == (None, "armory", SECRET)
    assert asked["scope"] == "own"


async def test_a_key_signs_an_assertion(world: World, pools: list[Pool]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    await call(reach(world, pools, ClientCredentials("armory", private_key=pem)))
    asked = world.requests[-1]
    assert asked["client_assertion_type"].endswith(":jwt-bearer")
    claims = jwt.decode(
        asked["client_assertion"], key.public_key(), ["ES256"], audience=world.issuer
    )
    assert (claims["iss"], claims["sub"]) == ("armory", "armory")
    with pytest.raises(ConfigError, match=r"auth\.private_key: this key cannot sign"):
        reach(world, pools, ClientCredentials("armory", private_key="no key"))


async def test_scopes_that_a_call_needs_are_asked_for_once_more(
    world: World, pools: list[Pool]
) -> None:
    world.challenge_scope = "read"
    pool = reach(world, pools)
    await call(pool)
    assert world.requests[-1]["scope"] == "read"
    world.needed = {"write"}
    await call(pool)
    assert world.requests[-1]["scope"] == "read write"
    world.needed = {"admin"}
    fixed = reach(world, pools, ClientCredentials("a", SECRET, scopes=("read",)))
    with pytest.raises(UpstreamUnavailable, match="HTTP 403"):
        await call(fixed)


async def test_only_the_configured_issuer_is_given_the_credentials(
    world: World, pools: list[Pool]
) -> None:
    pool = reach(world, pools, ClientCredentials("a", SECRET, issuer=world.issuer))
    await call(pool)
    world.valid.clear()
    world.named = "https://evil.example"
    with pytest.raises(UpstreamUnavailable, match=r"https://evil\.example.*auth\.issuer") as failed:
        await call(pool)
    assert failed.value.told == UNDISCOVERED
    assert len(world.requests) == 1


async def test_the_issuer_that_was_named_first_stays_the_only_one(
    world: World, pools: list[Pool]
) -> None:
    pool = reach(world, pools)
    await call(pool)
    world.valid.clear()
    world.named = "https://evil.example"
    with pytest.raises(UpstreamUnavailable, match=r"https://evil\.example"):
        await call(pool)
    assert len(world.requests) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"resource": "https://other.example/mcp"}, "are about 'https://other.example/mcp'"),
        ({"named": "http://as.example"}, "not reached over https"),
        ({"named": "https:///as"}, "not reached over https"),
        ({"issuer_path": "/other", "named": "{url}/as"}, "of issuer"),
    ],
)
async def test_metadata_that_do_not_fit_are_not_believed(
    world: World, pools: list[Pool], change: dict[str, str], says: str
) -> None:
    for name, text in change.items():
        setattr(world, name, text.format(url=world.url))
    with pytest.raises(UpstreamUnavailable, match=says) as failed:
        await call(reach(world, pools))
    assert failed.value.told == UNDISCOVERED
    assert world.requests == []


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"auth": ClientCredentials("a")}, "upstreams.up.auth"),
        ({"auth": ClientCredentials("a", "b", "c")}, "upstreams.up.auth"),
        (
            {"auth": ClientCredentials("a", "b", client_auth="private_key_jwt")},
            "upstreams.up.auth.client_auth",
        ),
        ({"auth": GRANT, "headers": {"authorization": "x"}}, "upstreams.up.auth"),
        ({"auth": GRANT, "url": None, "command": "x"}, "upstreams.up.auth"),
    ],
)
def test_keys_that_do_not_fit_are_refused(more: dict[str, Any], path: str) -> None:
    settings: dict[str, Any] = {"url": "http://127.0.0.1/mcp", **more}
    with pytest.raises(ConfigError) as refused:
        UpstreamSpec("up", **settings)
    assert refused.value.path == path
