"""Clients that are known by a document and prove who they are with a key (`private_key_jwt`)."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from armory.authserver import documents
from armory.oauth.exchange import Route
from armory.testing.certificates import certificate
from armory.testing.listening import listening
from armory.testing.oauth_client import CALLBACK, App
from armory.testing.people import World

pytestmark = pytest.mark.anyio
KIND = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Owner:
    """Whoever made the client: its site has the document, and the keys where that says so."""

    def __init__(self) -> None:
        self.origin = ""
        self.inline = False
        self.asked: list[str] = []
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.add_key("one")

    def add_key(self, kid: str) -> None:
        """Sign with a new key alone."""
        self.keys = {kid: ec.generate_private_key(ec.SECP256R1())}

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        to_jwk: Any = jwt.get_algorithm_by_name("ES256").to_jwk
        keys = self.keys.items()
        return {"keys": [{**to_jwk(k.public_key(), as_dict=True), "kid": id} for id, k in keys]}

    async def document(self, request: web.Request) -> web.Response:
        """The client's document; with its keys, or where they are."""
        self.asked.append(request.path)
        where = {"jwks": self.jwks} if self.inline else {"jwks_uri": f"{self.origin}/keys"}
        return web.json_response(
            {
                "client_id": f"{self.origin}/client",
                "client_name": "A client with a key",
                "redirect_uris": [CALLBACK],
                "token_endpoint_auth_method": "private_key_jwt",
                **where,
            }
        )

    async def published(self, request: web.Request) -> web.Response:
        """The keys."""
        self.asked.append(request.path)
        return web.json_response(self.jwks)

    def signed(self, url: str, typ: str = "JWT", **claims: Any) -> str:
        """An assertion, but for these claims; None takes one away."""
        id, now = f"{self.origin}/client", int(time.time())
        usual = {"iss": id, "sub": id, "aud": url, "iat": now, "exp": now + 60}
        usual["jti"] = str(time.monotonic_ns())
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        ((kid, key),) = self.keys.items()
        return jwt.encode(said, key, "ES256", headers={"kid": kid, "typ": typ})


@pytest.fixture
async def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Owner]:
    found = Owner()
    app = web.Application()
    app.router.add_get("/client", found.document)
    app.router.add_get("/keys", found.published)
    cert, key = certificate(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    runner, found.origin = await listening(app, serving)
    trusting = ssl.create_default_context(cafile=cert)
    # as if this machine were the internet
    route = Route(
        trusting, timeout_s=5.0, body_bytes=documents.BODY_BYTES + 1, named=(found.origin,)
    )
    monkeypatch.setattr(documents, "ROUTE", route)
    yield found
    await runner.cleanup()


@asynccontextmanager
async def gateway(world: World, owner: Owner) -> AsyncGenerator[tuple[str, App]]:
    """A gateway as an authorization server, and the client."""
    async with world.gateway(oauth={"proxy": world.client}) as (url, _), App(url) as app:
        app.client_id = f"{owner.origin}/client"
        yield url, app


async def proved(app: App, code: str, assertion: str, **form: str) -> tuple[int, dict[str, Any]]:
    """(status, answer) for a code that is brought with an assertion."""
    said = {"client_assertion_type": KIND, "client_assertion": assertion, **form}
    return await app.redeem(code, **said)


@pytest.mark.parametrize("inline", [False, True])
async def test_a_client_with_a_key_logs_in_and_refreshes(
    world: World, owner: Owner, inline: bool
) -> None:
    owner.inline = inline
    async with gateway(world, owner) as (url, app):
        place = f"{url}/.well-known/oauth-authorization-server"
        async with world.http.get(place) as response:
            metadata = await response.json()
        assert "private_key_jwt" in metadata["token_endpoint_auth_methods_supported"]
        assert "ES256" in metadata["token_endpoint_auth_signing_alg_values_supported"]
        back = await app.log_in()
        status, tokens = await proved(app, back["code"], owner.signed(url), client_id="")
        assert status == 200, tokens
        assert "result" in await world.ask(url, tokens["access_token"], "tools/list", {})
        form = {"client_assertion_type": KIND}
        form["client_assertion"] = owner.signed(metadata["token_endpoint"])
        assert (await app.refresh(tokens["refresh_token"], **form))[0] == 200
        assert owner.asked == (["/client"] if inline else ["/client", "/keys"])


async def test_who_has_not_the_key_is_not_that_client(world: World, owner: Owner) -> None:
    async with gateway(world, owner) as (url, app):
        code = (await app.log_in())["code"]
        stranger = Owner()
        stranger.origin = owner.origin
        used = owner.signed(url)
        claims = jwt.decode(used, options={"verify_signature": False})
        symmetric = str(owner.jwks["keys"][0]["x"]).encode()
        wrong = [
            stranger.signed(url),
            jwt.encode(claims, "", "none", headers={"kid": "one"}),
            jwt.encode(claims, symmetric, "HS256", headers={"kid": "one"}),
            owner.signed(url, typ="oauth-id-jag+jwt"),
            owner.signed("https://another.example"),
            owner.signed(url, aud=[url, "https://another.example"]),
            owner.signed(url, aud=None),
            owner.signed(url, sub="somebody"),
            owner.signed(url, iss="https://another.example/client"),
            owner.signed(url, jti=None),
            owner.signed(url, jti="\ud800"),
            owner.signed(url, sub="\ud800"),
            owner.signed(url, exp=None),
            owner.signed(url, exp=int(time.time()) - 60),
            owner.signed(url, exp=int(time.time()) + 7_200),
            owner.signed(url, exp=10**400),
            "a.b.c",
            "",
        ]
        for assertion in wrong:
            status, answer = await proved(app, code, assertion)
            assert (status, answer["error"]) == (401, "invalid_client"), assertion
            assert not assertion or assertion not in json.dumps(answer)
        for form in (
            {"client_secret": "a guess"},
            {"client_assertion": owner.signed(url), "client_assertion_type": "another"},
        ):
            assert (await app.redeem(code, **form))[0] == 401
        assert (await proved(app, code, used))[0] == 200
        status, answer = await proved(app, code, used)  # and once each
        assert (status, "used before" in answer["error_description"]) == (401, True)


async def test_a_client_without_a_key_brings_no_assertion(world: World, owner: Owner) -> None:
    async with gateway(world, owner) as (url, app):
        await app.register()
        code = (await app.log_in())["code"]
        assert (await proved(app, code, owner.signed(url)))[0] == 401


async def test_keys_that_are_nowhere_let_nobody_in(world: World, owner: Owner) -> None:
    async with gateway(world, owner) as (url, app):
        code = (await app.log_in())["code"]
        owner.keys = {}
        stranger = Owner()
        stranger.origin = owner.origin
        status, answer = await proved(app, code, stranger.signed(url))
        assert (status, answer["error"]) == (401, "invalid_client")
