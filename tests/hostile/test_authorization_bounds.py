"""What the authorization server takes, fetches and tells: within bounds, and no secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
import structlog

from armory.testing.oauth_client import App
from armory.testing.people import World
from tests.hostile.authorization import proxied

pytestmark = pytest.mark.anyio


async def test_documents_are_fetched_from_nowhere_inside(world: World) -> None:
    connected: list[object] = []

    async def accepted(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)
        writer.close()

    inside = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = inside.sockets[0].getsockname()[1]
    async with inside, proxied(world) as url, App(url) as client:
        for place in (
            f"https://127.0.0.1:{port}/x", f"https://localhost:{port}/x",
            f"https://[::1]:{port}/x", "https://169.254.169.254/latest/meta-data",
            f"https://2130706433:{port}/x", f"http://127.0.0.1:{port}/x",
            f"https://user@127.0.0.1:{port}/x", f"https://[::ffff:127.0.0.1]:{port}/x",
            f"https://127.0.0.1:{port}", f"https://127.0.0.1:{port}/x#y",
        ):  # fmt: skip
            client.client_id = place
            status, page = await client.authorize()
            assert (status, "<h1>" in page) == (400, True), place
            assert (await client.redeem("x"))[0] == 401
    assert connected == []


async def test_no_secret_is_in_a_url_a_log_or_an_error(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        with structlog.testing.capture_logs() as logs:
            tokens = await app.tokens()
            await app.refresh(tokens["refresh_token"])
            world.later(31)
            _, twice = await app.refresh(tokens["refresh_token"])
            _, page = await app.get(f"{url}/oauth/callback?code=its-code&state=its-state")
            async with world.http.get(f"{url}/metrics") as response:
                metrics = await response.text()
    shown = f"{logs}{twice}{page}{metrics}"
    secret = [f.get(name, "") for f in world.provider.forms for name in ("code", "refresh_token")]
    secret += [tokens["access_token"], tokens["refresh_token"], "armory-secret", "its-code"]
    assert [text for text in secret if text and text in shown] == []


async def test_a_form_that_is_no_text_is_refused(world: World) -> None:
    kind = "application/x-www-form-urlencoded"
    async with proxied(world) as url, App(url) as app:
        for path in ("oauth/token", "oauth/revoke", "oauth/consent", "connect/docs"):
            for data, type in ((b"\xff\xfe", kind), (b"a=b", f"{kind}; charset=none")):
                headers = {"Content-Type": type, "Origin": url}
                async with app.http.post(f"{url}/{path}", data=data, headers=headers) as said:
                    assert said.status in (400, 413), path


async def test_a_form_in_chunks_is_no_longer_than_one_whose_length_is_given(world: World) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b"grant_type=authorization_code"
        for _ in range(40):
            yield b"&a=1" * 1_000

    async with proxied(world) as url, App(url) as app:
        for place in ("token", "revoke"):
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            async with app.http.post(f"{url}/oauth/{place}", data=chunks(), headers=form) as said:
                assert said.status == 413
                assert "at most" in (await said.json())["error_description"]


async def test_registering_is_bounded(world: World) -> None:
    async with proxied(world) as url, App(url) as app:
        for metadata in (
            {"redirect_uris": []},
            {"redirect_uris": [f"http://127.0.0.1/{n}" for n in range(11)]},
            {"redirect_uris": [f"https://a.example/{'x' * 600}"]},
            {"redirect_uris": [f"https://a.example/{n}{'x' * 480}" for n in range(10)]},
            {"redirect_uris": "https://a.example/"},
            {"grant_types": ["client_credentials"]},
            {"response_types": ["token"]},
        ):
            assert (await app.register(**metadata))[0] == 400, metadata
        assert (await app.register(client_name="x" * 40_000))[0] == 413
        status, said = await app.register(client_name="x" * 500)
        assert (status, len(said["client_name"])) == (201, 100)
        async with app.http.post(f"{url}/oauth/register", data=b"[1]") as response:
            assert response.status == 400
