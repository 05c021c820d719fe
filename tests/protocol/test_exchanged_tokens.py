"""The caller's token toward an upstream: exchanged, or passed on."""

from __future__ import annotations

import json

import pytest

from armory.testing.people import TOKENS, World

pytestmark = pytest.mark.anyio


def nobody(token: str) -> None:
    """No token holds any more."""


async def test_the_callers_token_is_exchanged_once_and_every_parameter_is_right(
    world: World,
) -> None:
    issuer = world.provider.issuer
    auth = {"type": "token_exchange", **world.client}
    auth["audience"] = world.upstream.url
    async with world.gateway(auth, oauth={"issuer": issuer}) as (url, _):
        ann, bob = (world.provider.sign(sub=name, aud=f"{url}/mcp") for name in TOKENS)
        for _ in range(3):
            assert "docs__only_ann" in await world.names(url, ann)
            assert (await world.ask(url, ann))["result"]["content"][0]["text"] == "ann: "
        assert (await world.ask(url, bob))["result"]["content"][0]["text"] == "bob: "
        kind = "urn:ietf:params:oauth:token-type:access_token"
        assert world.provider.forms == [
            {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token": token,
                "subject_token_type": kind,
                "requested_token_type": kind,
                "audience": world.upstream.url,
            }
            for token in (ann, bob)
        ]
        failed = await world.ask(url, TOKENS["ann"], params={"name": "docs__note"})
        assert "result" not in failed or failed["result"]["isError"]


async def test_an_exchange_that_fails_is_not_tried_again_at_once(world: World) -> None:
    issuer = world.provider.issuer
    auth = {"type": "token_exchange", **world.client}
    async with world.gateway(auth, oauth={"issuer": issuer}) as (url, _):
        ann = world.provider.sign(sub="ann", aud=f"{url}/mcp")
        assert "docs__note" in await world.names(url, ann)
        verified, world.upstream.verified = world.upstream.verified, nobody
        before = len(world.provider.forms)
        failed = await world.ask(url, ann)
        assert failed["result"]["isError"]
        assert len(world.provider.forms) == before + 1
        world.upstream.verified = verified
        world.provider.refusal = (400, {"error": "invalid_grant"})
        other = world.provider.sign(sub="ann", aud=f"{url}/mcp", jti="2")
        before = len(world.provider.forms)
        for _ in range(3):
            failed = await world.ask(url, other)
            assert "invalid_grant" in failed["result"]["content"][0]["text"]
            assert other not in json.dumps(failed)
        assert len(world.provider.forms) == before + 1


async def test_a_token_is_passed_on_only_to_whom_it_is_for(world: World) -> None:
    auth = {"type": "passthrough"}
    oauth = {"issuer": world.provider.issuer}
    async with world.gateway(auth, oauth=oauth) as (url, _):
        both = world.provider.sign(sub="ann", aud=[f"{url}/mcp", world.upstream.url])
        only = world.provider.sign(sub="bob", aud=f"{url}/mcp")
        seen = world.upstream.bare
        world.upstream.verified = lambda token: (
            {"sub": "ann", "aud": world.upstream.url} if token == both else None
        )
        assert "docs__only_ann" in await world.names(url, both)
        assert await world.names(url, only) == []
        told = json.dumps(await world.ask(url, only))
        assert "the caller's token is not for this upstream, so it is not passed on" in told
        assert world.upstream.url not in told
        assert world.upstream.bare == seen
