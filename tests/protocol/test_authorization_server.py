"""The gateway as an authorization server in front of a provider that registers nobody."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import pytest

from armory.runtime.running import Runtime
from armory.testing.identity import TOKEN_TYPE
from armory.testing.oauth_client import CALLBACK, App
from armory.testing.people import Browser, World

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def proxied(
    world: World, auth: dict[str, Any] | None = None, **proxy: Any
) -> AsyncGenerator[tuple[str, Runtime]]:
    """A gateway in front of the provider."""
    oauth = {"scopes": ["mcp:use"], "proxy": {**world.client, **proxy}}
    async with world.gateway(auth, oauth=oauth) as found:
        yield found


async def allowed(world: World, url: str, token: str) -> bool:
    """Whether a token opens `/mcp`."""
    listed = await world.ask(url, token, "tools/list", {})
    return "result" in listed


async def test_a_client_registers_logs_in_and_goes_on(world: World) -> None:
    async with proxied(world) as (url, _), App(url) as app:
        where = f"{url}/.well-known/oauth-protected-resource/mcp"
        async with world.http.get(where) as response:
            assert (await response.json())["authorization_servers"] == [url]
        for kind in ("oauth-authorization-server", "openid-configuration"):
            async with world.http.get(f"{url}/.well-known/{kind}") as response:
                metadata = await response.json()
                assert response.headers["Access-Control-Allow-Origin"] == "*"
            assert metadata["issuer"] == url
            assert metadata["code_challenge_methods_supported"] == ["S256"]
            assert metadata["client_id_metadata_document_supported"] is True
            assert metadata["authorization_response_iss_parameter_supported"] is True
        status, client = await app.register(client_name="<b>evil</b>")
        assert status == 201
        assert client["grant_types"] == ["authorization_code", "refresh_token"]
        _, page = await app.authorize()
        assert "&lt;b&gt;evil&lt;/b&gt;" in page
        assert CALLBACK in page
        _, place = await app.press(page)
        assert place.startswith(f"{world.provider.issuer}/authorize?")
        back = await app.come_back(place)
        assert (back["iss"], back["state"]) == (url, app.state)
        status, first = await app.redeem(back["code"])
        assert status == 200
        assert first["scope"] == "mcp:use"
        assert 0 < first["expires_in"] <= 1_800
        assert await allowed(world, url, first["access_token"])
        status, second = await app.refresh(first["refresh_token"])
        assert status == 200
        assert await allowed(world, url, second["access_token"])
        assert second["refresh_token"] != first["refresh_token"]


async def test_a_resource_may_be_named_in_capitals(world: World) -> None:
    async with proxied(world) as (url, _), App(url) as app:
        named = url.replace("http", "HTTP") + "/mcp"
        tokens = await app.tokens(resource=named)
        assert await allowed(world, url, tokens["access_token"])
        form = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": app.client_id,
            "resource": named,
        }
        async with world.http.post(f"{url}/oauth/token", data=form) as response:
            assert response.status == 200


async def test_one_replica_begins_and_another_goes_on(world: World) -> None:
    async with proxied(world) as (one, _), proxied(world) as (other, _), App(one) as app:
        # behind one name, as behind a load balancer
        tokens = await app.tokens()
        headers = {"Host": one.removeprefix("http://")}
        form = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": app.client_id,
        }
        async with world.http.post(f"{other}/oauth/token", data=form, headers=headers) as response:
            assert response.status == 200
        world.later(31)
        status, answer = await app.refresh(tokens["refresh_token"])  # used elsewhere
        assert (status, answer["error"]) == (400, "invalid_grant")


async def test_tokens_of_the_provider_rest_sealed_and_go_where_they_are_exchanged(
    world: World,
) -> None:
    world.provider.clients["exchanger"] = "exchanger-secret"
    auth = {
        "type": "token_exchange",
        "issuer": world.provider.issuer,
        "client_id": "exchanger",
        "client_secret": "exchanger-secret",
        "audience": world.upstream.url,
    }
    async with proxied(world, auth) as (url, _), App(url) as app:
        tokens = await app.tokens()
        answer = await world.ask(url, tokens["access_token"])
        assert "ann" in str(answer["result"])
        exchanged = [f for f in world.provider.forms if "subject_token" in f]
        assert exchanged
        assert tokens["access_token"] not in str(world.provider.forms)
        rest = b"".join(p.read_bytes() for p in world.home.rglob("armory.db*"))
        assert rest
        for form in exchanged:
            assert form["subject_token"].encode() not in rest


async def test_of_a_login_the_id_token_is_exchanged_where_that_is_wanted(world: World) -> None:
    auth = {
        "type": "token_exchange",
        **world.client,
        "audience": world.upstream.url,
        "subject_token": "id_token",
    }

    def exchanged() -> list[dict[str, Any]]:
        """The claims of each ID token that was exchanged."""
        forms = [form for form in world.provider.forms if "subject_token" in form]
        assert {form["subject_token_type"] for form in forms} <= {f"{TOKEN_TYPE}id_token"}
        return [world.provider.verified(form["subject_token"]) or {} for form in forms]

    async with proxied(world, auth) as (url, _), App(url) as app:
        tokens = await app.tokens()
        for _ in range(2):
            answer = await world.ask(url, tokens["access_token"])
            assert answer["result"]["content"][0]["text"] == "ann: "
        (claims,) = exchanged()
        assert (claims["sub"], claims["aud"]) == ("ann", "armory")
        world.provider.lifetime += 60  # so that the next one differs
        _, tokens = await app.refresh(tokens["refresh_token"])
        answer = await world.ask(url, tokens["access_token"])
        assert answer["result"]["content"][0]["text"] == "ann: "
        assert [one["sub"] for one in exchanged()] == ["ann", "ann"]
        assert exchanged()[1]["exp"] > exchanged()[0]["exp"]
        foreign = world.provider.sign("JWT", sub="bob", aud="armory")
        answer = {"access_token": "x", "token_type": "Bearer", "id_token": foreign}
        world.provider.refusal = (200, answer)
        status, said = await app.refresh(tokens["refresh_token"])
        assert (status, said["error"]) == (400, "invalid_grant")
        assert not await allowed(world, url, tokens["access_token"])
    world.provider.refusal = None
    async with proxied(world, auth, scopes=["profile"]) as (url, _), App(url) as app:
        world.provider.metadata["userinfo_endpoint"] = f"{world.provider.issuer}/userinfo"
        tokens = await app.tokens()
        answer = await world.ask(url, tokens["access_token"])
        assert "'openid'" in answer["result"]["content"][0]["text"]


async def test_who_logs_out_or_is_shut_out_is_out(world: World) -> None:
    async with proxied(world) as (url, _), App(url) as app:
        tokens = await app.tokens()
        assert await allowed(world, url, tokens["access_token"])
        form = {"token": tokens["refresh_token"], "client_id": app.client_id}
        async with app.http.post(f"{url}/oauth/revoke", data=form) as response:
            assert response.status == 200
        assert not await allowed(world, url, tokens["access_token"])
        tokens = await app.tokens()
        world.provider.refusal = (400, {"error": "invalid_grant"})
        status, answer = await app.refresh(tokens["refresh_token"])
        assert (status, answer["error"]) == (400, "invalid_grant")
        assert not await allowed(world, url, tokens["access_token"])


async def test_a_provider_that_is_away_costs_nobody_the_login(world: World) -> None:
    async with proxied(world) as (url, _), App(url) as app:
        tokens = await app.tokens()
        world.provider.away = True
        status, answer = await app.refresh(tokens["refresh_token"])
        assert (status, answer["error"]) == (503, "temporarily_unavailable")
        assert await allowed(world, url, tokens["access_token"])
        world.provider.away = False
        assert (await app.refresh(tokens["refresh_token"]))[0] == 200


async def test_a_new_login_says_that_the_provider_is_away(world: World) -> None:
    async with proxied(world) as (url, _), App(url) as app:
        await app.register()
        _, page = await app.authorize()
        world.provider.away = True
        status, said = await app.press(page)
        assert status == 502
        assert f"{world.provider.url}/" in said
        assert "answered HTTP 503" in said
        world.provider.away = False
        _, place = await app.press(page)
        _, place = await app.get(place)
        world.provider.away = True
        back = await app.come_back(place)
        assert (back["error"], "503" in back["error_description"]) == (
            "temporarily_unavailable",
            True,
        )
        world.provider.away = False
        assert "access_token" in await app.tokens()


async def test_who_cannot_be_known_is_told_why(world: World) -> None:
    """In words of the login: there is no upstream that could be meant."""
    proxy = {"issuer": world.provider.issuer, "client_id": "armory", "client_secret": "wrong"}
    async with world.gateway(oauth={"proxy": proxy}) as (url, _), App(url) as app:
        await app.register()
        back = await app.log_in()
        assert back["error"] == "temporarily_unavailable"  # it is not the person that is refused
        says = f"the login at {world.provider.issuer} did not work: "
        assert back["error_description"].startswith(says)
        assert "invalid_client" in back["error_description"]
        async with Browser(world, url) as browser:
            status, text = await browser.click("sign-in")
            assert (status, says in text) == (502, True)


async def test_people_log_in_to_the_console(world: World) -> None:
    """At the provider, with no page in between; with the scopes that the provider says."""
    async with (
        proxied(world, redirects=["https://elsewhere.example/*"]) as (url, _),
        proxied(world) as (replica, _),
        App(url) as app,
    ):
        at_replica = {"Host": url.removeprefix("http://")}

        async def ask(path: str, body: dict[str, str] | None = None, at: str = url) -> Any:
            method = "GET" if path == "" else "POST"
            where = f"{at}/v1/login{path}"
            async with world.http.request(method, where, json=body, headers=at_replica) as answer:
                return answer.status, await answer.json()

        assert await ask("") == (200, {"issuer": world.provider.issuer})
        (_, mine), (_, others) = await ask("/begin"), await ask("/begin")
        back: list[dict[str, str]] = []
        for begun in (mine, others):
            place = begun["url"]
            while not place.startswith(f"{url}/console/"):
                status, place = await app.get(place)
                assert status in (302, 303), place
            back.append(dict(parse_qsl(urlsplit(place).query)))
        app.client_id = parse_qs(urlsplit(mine["url"]).query)["client_id"][0]
        assert (await app.redeem(back[1]["code"]))[0] == 401  # not at the token endpoint
        status, said = await ask("/finish", {**back[0], "kept": others["kept"]})
        assert (status, said["code"]) == (503, "login_failed")
        status, done = await ask("/finish", {**back[0], "kept": mine["kept"]}, replica)
        assert status == 200
        assert await allowed(world, url, done["token"])
        status, said = await ask("/finish", {**back[0], "kept": mine["kept"]})
        assert (status, "used before" in str(said)) == (503, True)
        assert not await allowed(world, url, done["token"])
        query = {"redirect_uri": "http://127.0.0.1:9/console/", "client_id": app.client_id}
        assert "wants to use this gateway" in (await app.authorize(**query))[1]
        query["redirect_uri"] = "https://elsewhere.example/console/"
        assert (await app.authorize(**query))[0] == 400


async def test_what_the_providers_address_asks_for_is_asked(world: World) -> None:
    """Google gives refresh tokens for it."""
    at = world.provider.issuer
    proxy = {"authorize_url": f"{at}/authorize?access_type=offline&prompt=consent"}
    proxy |= {"token_url": f"{at}/token", "userinfo_url": f"{at}/userinfo"}
    proxy |= {"client_id": "armory", "client_secret": "armory-secret"}
    async with world.gateway(oauth={"proxy": proxy}) as (url, _), App(url) as app:
        await app.register()
        status, place = await app.press((await app.authorize())[1])
        assert status == 303
        sent = parse_qs(urlsplit(place).query)
        assert (sent["access_type"], sent["prompt"]) == (["offline"], ["consent"])
        back = await app.come_back(place)
        status, tokens = await app.redeem(back["code"])
        assert (status, (await app.refresh(tokens["refresh_token"]))[0]) == (200, 200)
        assert world.provider.forms[-1]["grant_type"] == "refresh_token"


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"email": "boss@example.org", "email_verified": False}, "not verified"),
        ({"email": "https://idp.example|boss"}, "not valid"),  # as another provider's are called
    ],
)
async def test_nobody_logs_in_as_somebody_else_by_a_name_of_its_choice(
    world: World, claims: dict[str, Any], says: str
) -> None:
    world.provider.says = claims
    proxy = {**world.client, "id_jag_issuers": ["https://idp.example"]}
    oauth = {"user_claim": "email", "proxy": proxy}
    async with world.gateway(oauth=oauth) as (url, _), App(url) as app:
        await app.register()
        back = await app.log_in()
        assert back["error"] == "access_denied"
        assert says in back["error_description"]


async def test_below_a_path_and_behind_a_proxy_it_has_the_outer_url(world: World) -> None:
    server = {"base_path": "/tools", "allowed_hosts": ["tools.example"]}
    server["trusted_proxies"] = ["127.0.0.1"]
    proxy = world.client
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "tools.example"}
    issuer = "https://tools.example/tools"
    async with (
        world.gateway(server=server, oauth={"proxy": proxy}) as (url, _),
        App(url, headers) as app,
    ):
        origin = url.removesuffix("/tools")
        for kind in ("oauth-authorization-server", "openid-configuration"):
            for place in (f"{origin}/.well-known/{kind}/tools", f"{url}/.well-known/{kind}"):
                async with app.http.get(place) as response:
                    found = await response.json()
                assert found["issuer"] == issuer
                assert found["token_endpoint"] == f"{issuer}/oauth/token"
        await app.register()
        asked = app.asking(resource=f"{issuer}/mcp")
        async with app.http.get(f"{url}/oauth/authorize", params=asked) as response:
            page = await response.text()
            cookie = response.headers["Set-Cookie"]
        assert cookie.startswith("__Host-armory_browser")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
        app.http.headers.update({"Cookie": cookie.partition(";")[0]})
        status, place = await app.press(page, origin="https://tools.example")
        assert status == 303, place
        assert f"redirect_uri={issuer}/oauth/callback" in unquote(place)


async def test_on_the_connect_page_people_log_in_at_the_provider(world: World) -> None:
    async with proxied(world) as (url, _), App(url) as app, Browser(world, url) as browser:
        world.provider.redirects["armory"] = {f"{url}/oauth/callback"}  # all that is registered
        world.provider.user = "bob"
        token = (await app.tokens())["access_token"]
        assert await world.names(url, token) == ["docs__log_in"]
        status, text = await browser.click("sign-in")
        assert (status, "You are <b>bob</b>" in text) == (200, True), text
        world.provider.redirects["armory"] = {f"{url}/connect/callback"}  # of the upstream's client
        assert "Connected" in (await browser.click("connect"))[1]
        assert "docs__only_bob" in await world.names(url, token)
