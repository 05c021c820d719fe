"""Attacks on the gateway as an authorization server."""

from __future__ import annotations

import base64
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from armory.testing.oauth_client import CALLBACK, App
from armory.testing.people import World
from tests.hostile.authorization import proxied

pytestmark = pytest.mark.anyio


async def opens(world: World, endpoint: str, token: str) -> bool:
    from armory.testing.clients.raw import modern_body, modern_headers

    body = modern_body(1, "tools/list", {})
    headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
    async with world.http.post(endpoint, json=body, headers=headers) as response:
        return response.status == 200


async def test_a_token_is_for_one_endpoint_and_the_providers_own_is_for_none(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        tokens = await app.tokens(resource=f"{url}/mcp/docs")
        assert await opens(world, f"{url}/mcp/docs", tokens["access_token"])
        assert not await opens(world, f"{url}/mcp", tokens["access_token"])
        for token in (
            tokens["refresh_token"],
            world.provider.sign(sub="ann", aud=f"{url}/mcp"),  # confused deputy
            tokens["access_token"][:-6] + "AAAAAA",
        ):
            assert not await opens(world, f"{url}/mcp/docs", token)
        for elsewhere in ("https://evil.example/mcp", f"{url}/v1/tools", f"{url}.evil.example/mcp"):
            status, back = await app.authorize(resource=elsewhere)
            assert status == 303
            assert "error=invalid_target" in back
        back = await app.log_in()
        status, answer = await app.redeem(back["code"], resource=f"{url}/mcp/docs")
        assert (status, answer["error"]) == (400, "invalid_target")


async def test_nobody_is_sent_to_a_redirect_uri_that_only_looks_alike(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        await app.register(redirect_uris=[CALLBACK, "https://app.example/back"])
        for uri in (
            "http://127.0.0.1:9/callback/..", "http://127.0.0.1:9/callbackx",
            "http://127.0.0.1.evil/callback",
            "http://127.0.0.1:9@evil.example/callback", "https://127.0.0.1:9/callback",
            "http://localhost:9/callback", "http://127.0.0.1:9/callback?next=https://evil.example",
            "http://127.0.0.1:9\\@evil.example/callback", "http://127.0.0.1:9/callback#x",
            "http://127.0.0.1:9/CALLBACK", "http://127.0.0.1:9?/callback",
            "//evil.example/callback", "javascript:alert(1)", "",
            "http://127.0.0.1:99999999/callback", "http://127.0.0.1:9/callback\r\nX: y",
        ):  # fmt: skip
            status, page = await app.authorize(redirect_uri=uri)
            assert status == 400, uri
            assert "<h1>" in page  # a page of the gateway, no redirect: no open redirect either


async def test_redirect_uris_that_lead_anywhere_are_not_registered(world: World) -> None:
    async with proxied(world, redirects=["https://*.example.com/callback"]) as url, App(url) as app:
        for uri in (
            "javascript:alert(1)", "data:text/html,x", "http://evil.example/", "https://u@x.example/",
            "https://app.example.com/callback#x", "https://evil.test/callback?x.example.com/callback",
            "https://evil.test/.example.com/callback", "https://app.example.com.evil.test/callback",
            "https://app.example.com/other", "https://app.example.com:8443/callback", CALLBACK,
        ):  # fmt: skip
            status, answer = await app.register(redirect_uris=[uri])
            assert (status, answer["error"]) == (400, "invalid_redirect_uri"), uri
        assert (await app.register(redirect_uris=["https://app.example.com/callback"]))[0] == 201


async def test_what_looks_like_a_host_before_an_at_is_none(world: World) -> None:
    """A browser goes to what is behind the @; the page would name what is before it."""
    anywhere = ["http://127.0.0.1:*/*", "http://localhost:*/*", "https://claude.ai:*/*"]
    for allowed in ([], anywhere):
        async with proxied(world, redirects=allowed) as url, App(url) as app:
            for uri in (
                "http://127.0.0.1:80@evil.example/cb", "http://localhost:1@evil.example/",
                "http://[::1]:80@evil.example/cb", "https://claude.ai:443@evil.example/cb",
                "http://127.0.0.1:80x/cb", "https://claude.ai:443.evil.example/cb",
            ):  # fmt: skip
                status, answer = await app.register(redirect_uris=[uri])
                assert (status, answer["error"]) == (400, "invalid_redirect_uri"), uri


async def test_pkce_is_not_left_out_and_not_downgraded(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        await app.register()
        for changed in (
            {"code_challenge": None, "code_challenge_method": None},
            {"code_challenge_method": "plain"},
            {"code_challenge_method": None},
            {"code_challenge": "short"},
        ):
            status, back = await app.authorize(**changed)
            assert status == 303
            said = dict(parse_qsl(urlsplit(back).query))
            assert (said["error"], said["iss"]) == ("invalid_request", url)
        back = await app.log_in()
        for wrong in ("", "x" * 43, back["code"]):
            status, answer = await app.redeem(back["code"], code_verifier=wrong)
            assert (status, answer["error"]) == (400, "invalid_grant")
        sent = [f for f in world.provider.forms if f["grant_type"] == "authorization_code"]
        assert len(sent[0]["code_verifier"]) >= 43  # and toward the provider


async def test_a_provider_without_s256_is_not_logged_in_at(world: World) -> None:
    world.provider.metadata["code_challenge_methods_supported"] = ["plain"]
    async with proxied(world) as url, App(url) as app:
        await app.register()
        _, page = await app.authorize()
        status, text = await app.press(page)
        assert status == 502
        assert "S256" in text


async def test_an_injected_code_is_of_no_use(world: World) -> None:
    async with proxied(world) as url, App(url) as ann, App(url) as mallory:
        await ann.register()
        await mallory.register()
        code = (await ann.log_in())["code"]
        for form in (
            {"client_id": mallory.client_id},  # another client
            {"code_verifier": mallory.asking() and mallory.verifier},  # another login
            {"redirect_uri": "https://evil.example/callback"},
        ):
            status, answer = await ann.redeem(code, **form)
            assert (status, answer["error"]) == (400, "invalid_grant")
        assert (await ann.redeem(code))[0] == 200


async def test_a_code_that_comes_twice_ends_what_it_led_to(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        await app.register()
        code = (await app.log_in())["code"]
        status, tokens = await app.redeem(code)
        assert status == 200
        assert await opens(world, f"{url}/mcp", tokens["access_token"])
        assert (await app.redeem(code))[0] == 400
        assert not await opens(world, f"{url}/mcp", tokens["access_token"])
        assert (await app.refresh(tokens["refresh_token"]))[0] == 400


async def test_a_refresh_token_that_comes_twice_ends_the_grant(world: World) -> None:
    async with proxied(world) as url, App(url) as app, App(url) as other:
        first = await app.tokens()
        await other.register()
        status, answer = await other.refresh(first["refresh_token"])  # stolen, by another client
        assert (status, answer["error"]) == (400, "invalid_grant")
        status, second = await app.refresh(first["refresh_token"])
        assert status == 200
        world.later(31)
        assert (await app.refresh(first["refresh_token"]))[0] == 400
        assert (await app.refresh(second["refresh_token"]))[0] == 400
        assert not await opens(world, f"{url}/mcp", second["access_token"])


async def test_a_refresh_token_of_before_the_last_is_never_answered_again(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        first = await app.tokens()
        _, second = await app.refresh(first["refresh_token"])
        status, third = await app.refresh(second["refresh_token"])
        assert status == 200
        assert (await app.refresh(first["refresh_token"]))[0] == 400
        assert not await opens(world, f"{url}/mcp", third["access_token"])


async def test_a_known_client_id_skips_no_consent(world: World) -> None:
    async with proxied(world) as url, App(url) as ann, App(url) as victim:
        await ann.register(redirect_uris=[CALLBACK, "https://app.example/back"])
        await ann.log_in()
        victim.client_id = ann.client_id
        status, page = await victim.authorize()  # another browser
        assert (status, "Allow" in page) == (200, True)
        status, page = await ann.authorize()  # this one has said yes, to this redirect URI
        assert status == 303
        status, page = await ann.authorize(redirect_uri="https://app.example/back")
        assert (status, "app.example" in page) == (200, True)
        status, page = await ann.authorize(resource=f"{url}/mcp/docs")
        assert status == 200
        before = ann.client_id
        await ann.register(redirect_uris=[CALLBACK])  # the same name, another client
        assert ann.client_id != before
        assert (await ann.authorize())[0] == 200


async def test_nobody_is_sent_to_a_page_that_it_has_not_agreed_to(world: World) -> None:
    page = "https://app.example/back"  # anybody may register one
    mistakes: tuple[dict[str, str | None], ...] = (
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge": None},
        {"prompt": "none"},
        {"resource": "https://app.example/mcp"},
        {"state": "x" * 1_001},
    )
    for named in ([], ["https://app.example/*", "http://127.0.0.1:*/*"]):
        async with proxied(world, redirects=named) as url, App(url) as app:
            await app.register(redirect_uris=[page, CALLBACK])
            for wrong in mistakes:
                status, back = await app.authorize(redirect_uri=page, **wrong)
                assert (status, back.startswith(page)) == ((303, True) if named else (400, False))
                status, back = await app.authorize(**wrong)  # a program on its own device
                assert (status, back.startswith(CALLBACK)) == (303, True)
    known = {"desk": {"redirects": [page]}}
    async with proxied(world, clients=known) as url, App(url) as app:
        app.client_id = "desk"  # which the operator knows
        status, back = await app.authorize(redirect_uri=page, prompt="none")
        assert (status, back.startswith(f"{page}?error=interaction_required")) == (303, True)


async def test_no_other_site_and_no_other_browser_presses_the_button(world: World) -> None:
    async with proxied(world) as url, App(url) as ann, App(url) as mallory:
        await mallory.register()
        _, page = await mallory.authorize()
        ann.client_id = mallory.client_id
        for origin in ("https://evil.example", "null", ""):
            assert (await mallory.press(page, origin=origin))[0] == 403
        assert (await ann.press(page))[0] == 403  # a page that was shown elsewhere
        await ann.authorize()
        assert (await ann.press(page))[0] == 403
        forged = re.sub(r'value="[^"]{20,}"', f'value="{"A" * 80}"', page)
        assert (await mallory.press(forged))[0] == 400
        status, back = await mallory.press(page, "deny")
        assert (status, "error=access_denied" in back) == (303, True)
        async with ann.http.get(f"{url}/oauth/authorize", params=ann.asking()) as shown:
            assert "frame-ancestors 'none'" in shown.headers["Content-Security-Policy"]
            assert shown.headers["Cache-Control"] == "no-store"


async def test_a_login_belongs_to_its_browser_and_its_state_counts_once(world: World) -> None:
    async with (
        proxied(world) as url,
        proxied(world) as replica,
        App(url) as ann,
        App(url) as mallory,
    ):
        await ann.register()
        mallory.client_id = ann.client_id
        _, place = await ann.press((await ann.authorize())[1])
        _, back = await ann.get(place)  # from the provider: the gateway's own callback
        assert back.startswith(f"{url}/oauth/callback")
        assert (await mallory.get(back))[0] == 400  # fixation: her code in his browser
        await mallory.press((await mallory.authorize())[1])
        assert (await mallory.get(back))[0] == 400
        cookies = {c.key: c.value for c in ann.http.cookie_jar}
        assert (await ann.get(back))[0] == 303
        assert (await ann.get(back))[0] == 400
        for target in (url, replica):  # with the cookie kept, at either replica
            again = back.replace(url, target)
            jar = "; ".join(f"{name}={value}" for name, value in cookies.items())
            headers = {"Cookie": jar, "Host": urlsplit(url).netloc}
            async with world.http.get(again, headers=headers, allow_redirects=False) as answer:
                assert answer.status == 400
                assert "used already" in await answer.text()


async def test_an_answer_of_another_issuer_is_not_taken(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        await app.register()
        for wrong in ("https://evil.example", ""):
            _, place = await app.authorize()
            if "<h1>" in place:
                _, place = await app.press(place)
            _, back = await app.get(place)
            mixed = re.sub(r"&?iss=[^&]+", f"&iss={wrong}" if wrong else "", back)
            status, place = await app.get(mixed)
            assert status == 303
            assert "error=access_denied" in place
            assert "code=" not in place.replace("error_code", "")
        assert not [f for f in world.provider.forms if f["grant_type"] == "authorization_code"]


async def test_parameters_that_come_twice_are_not_chosen_from(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        await app.register()
        query = "&".join(f"{k}={v}" for k, v in app.asking().items())
        status, page = await app.get(
            f"{url}/oauth/authorize?{query}&redirect_uri=https://evil.example/"
        )
        assert (status, "more than once" in page) == (400, True)


async def test_a_client_with_a_secret_needs_it(world: World) -> None:
    async with proxied(world) as url, App(url) as app, App(url) as other:
        _, said = await app.register(token_endpoint_auth_method="client_secret_post")
        _, others = await other.register(token_endpoint_auth_method="client_secret_basic")
        code = (await app.log_in())["code"]
        for secret in ("", "x", others["client_secret"]):
            status, answer = await app.redeem(code, client_secret=secret)
            assert (status, answer["error"]) == (401, "invalid_client")
        pair = f"{app.client_id}:{said['client_secret']}".encode()
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK,
            "code_verifier": app.verifier,
        }  # fmt: skip
        basic = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        async with app.http.post(f"{url}/oauth/token", data=form, headers=basic) as response:
            assert response.status == 200
