"""Identity providers are reached as the environment says: through its proxy, or past it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from armory.errors import BackendError
from armory.oauth.exchange import NoAnswer, Route, exchange
from armory.security.issuer import Issuer
from armory.tasks import Tasks
from armory.testing.certificates import certificate
from armory.testing.listening import listening
from armory.testing.servers import free_port
from armory.upstreams.oauth.client import TokenClient
from armory.upstreams.oauth.discovery import AuthServerMetadata
from tests.names import nobody_knows

pytestmark = pytest.mark.anyio
IDP = "idp.invalid"
"""A name that nobody but the proxy knows."""
OUTSIDE = "https://8.8.8.8"


class Proxy:
    """A proxy that leads every name to one server of this machine.

    Attributes:
        url: as the environment names it, with a password.
        leads_to: the port of that server.
        asked: the first line of every request.
        refuses: answers 407 to everything.
    """

    def __init__(self, leads_to: int) -> None:
        self.leads_to = leads_to
        self.asked: list[str] = []
        self.refuses = False
        self._tasks = Tasks()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://ann:hunter22@127.0.0.1:{port}"

    async def stop(self) -> None:
        self._server.close()
        await self._tasks.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            first = head.split(b"\r\n")[0].decode()
            self.asked.append(first)
            if self.refuses:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            else:
                there, to = await asyncio.open_connection("127.0.0.1", self.leads_to)
                if first.startswith("CONNECT "):
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                else:
                    to.write(head.replace(f"http://{IDP}".encode(), b"", 1))
                self._tasks.spawn(_passed_on(there, writer), "proxy: back")
                await _passed_on(reader, to)
        writer.close()


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.fixture(params=["http", "https"])
async def provider(
    request: pytest.FixtureRequest, tmp_path: Path, no_proxies: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[str, Route, Proxy]]:
    """(origin, whom it takes to reach it, the proxy that does) of an identity provider."""
    nobody_knows(no_proxies, IDP)

    async def token(_request: web.Request) -> web.Response:
        return web.json_response({"access_token": "of-the-provider", "token_type": "Bearer"})

    app = web.Application()
    app.router.add_post("/token", token)
    served, trusted = None, None
    if request.param == "https":
        cert, key = certificate(tmp_path)
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(cert, key)
        trusted = ssl.create_default_context(cafile=str(cert))
        trusted.check_hostname = False  # it is one of 127.0.0.1
    runner, url = await listening(app, served)
    proxy = Proxy(URL(url).port or 0)
    await proxy.start()
    no_proxies.setenv(f"{request.param}_proxy".upper(), proxy.url)
    yield f"{request.param}://{IDP}", Route(trusted or True, timeout_s=20.0), proxy
    await proxy.stop()
    await runner.cleanup()


async def test_it_is_reached_through_the_proxy_of_the_environment(
    provider: tuple[str, Route, Proxy],
) -> None:
    origin, route, proxy = provider
    answer = await exchange("POST", f"{origin}/token", route=route)
    assert (answer.status, len(proxy.asked)) == (200, 1)
    assert IDP in proxy.asked[0]
    # token exchange, too, of an upstream without a proxy of its own
    place = AuthServerMetadata(issuer=origin, token_url=f"{origin}/token")
    asking = TokenClient("up", tls=route.tls, named=(OUTSIDE,))
    assert (await asking.request_token(place, {}, {})).token == "of-the-provider"
    assert len(proxy.asked) == 2


async def test_hosts_that_are_excepted_are_reached_past_it(
    provider: tuple[str, Route, Proxy], no_proxies: pytest.MonkeyPatch
) -> None:
    origin, route, proxy = provider
    no_proxies.setenv("NO_PROXY", "other.example,.invalid")
    with pytest.raises(NoAnswer, match=f"{origin}/token did not answer: its name cannot be res"):
        await exchange("POST", f"{origin}/token", route=route)
    no_proxies.delenv("NO_PROXY")
    with pytest.raises(NoAnswer, match="did not answer: Connection refused"):  # this machine never
        await exchange("POST", f"{URL(origin).scheme}://127.0.0.1:{free_port()}/t", route=route)
    assert proxy.asked == []


async def test_what_the_proxy_refuses_is_told_without_its_password(
    provider: tuple[str, Route, Proxy], no_proxies: pytest.MonkeyPatch
) -> None:
    origin, route, proxy = provider
    proxy.refuses = True
    if origin.startswith("https"):
        with pytest.raises(NoAnswer, match="the proxy on the way answered HTTP 407"):
            await exchange("POST", f"{origin}/token", route=route)
    await proxy.stop()
    with pytest.raises(NoAnswer, match="the proxy on the way cannot be reached") as raised:
        await exchange("POST", f"{origin}/token", route=route)
    assert "hunter22" not in str(raised.value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        no_proxies.setenv(name, "socks5://127.0.0.1:1")
    with pytest.raises(NoAnswer, match="only HTTP proxies can be used"):
        await exchange("POST", f"{origin}/token", route=route)


async def test_tls_that_fails_is_told_as_that(no_proxies: pytest.MonkeyPatch) -> None:
    runner, url = await listening(web.Application())
    try:
        there = url.replace("http:", "https:")
        with pytest.raises(NoAnswer, match=r"TLS with it failed \(\w+\)"):
            await exchange("POST", f"{there}/token", route=Route())
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("host", ["127.0.0.2", "2130706434", "[::ffff:10.0.0.1]"])
async def test_no_document_makes_the_proxy_reach_inside(
    provider: tuple[str, Route, Proxy], host: str
) -> None:
    origin, route, proxy = provider
    guarded = Route(route.tls, named=(OUTSIDE,))
    with pytest.raises(NoAnswer, match="at no public address"):
        await exchange("POST", f"{URL(origin).scheme}://{host}/token", route=guarded)
    assert proxy.asked == []


@pytest.mark.parametrize("provider", ["https"], indirect=True)
async def test_a_certificate_that_is_not_trusted_is_told_as_such(
    provider: tuple[str, Route, Proxy],
) -> None:
    origin, _, proxy = provider
    said = rf"the certificate of https://{IDP}/\S+ is not trusted \(self-signed certificate\)"
    with pytest.raises(BackendError, match=said):
        await Issuer(origin).metadata()
    assert proxy.asked[0].startswith(f"CONNECT {IDP}:443 ")
    past = f"https://127.0.0.1:{proxy.leads_to}/token"
    with pytest.raises(NoAnswer, match=r"the certificate of \S+ is not trusted \(self-signed"):
        await exchange("POST", past)
