"""Documents of clients: whoever names slow ones, or what is none, holds up nobody else."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from armory.authserver import documents
from armory.authserver.documents import Documents
from armory.authserver.errors import UnusableClient
from armory.oauth.exchange import Route
from armory.testing.certificates import certificate
from armory.testing.clock import FakeClock
from armory.testing.listening import listening
from armory.testing.waiting import until
from armory.web.oauth.urls import network_of
from tests.names import nobody_knows

pytestmark = pytest.mark.anyio
ANN, BOB = "192.0.2.1", "192.0.2.2"


class Site:
    """Where documents are: quick ones, and ones that nobody ever gets."""

    def __init__(self) -> None:
        self.origin = ""
        self.asked: list[str] = []
        self.go_on = asyncio.Event()
        self.status = 200
        self.more: dict[str, Any] = {}

    async def document(self, request: web.Request) -> web.Response:
        """Any document."""
        self.asked.append(request.path)
        if request.path.startswith("/slow"):
            await self.go_on.wait()
            raise web.HTTPNotFound
        if self.status != 200:
            return web.Response(status=self.status)
        said = {
            "client_id": f"{self.origin}{request.path}",
            "client_name": "A client",
            "redirect_uris": ["http://127.0.0.1/callback"],
        }
        return web.json_response({**said, **self.more})


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Site]:
    found = Site()
    app = web.Application()
    app.router.add_get("/{path:.*}", found.document)
    cert, key = certificate(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    runner, found.origin = await listening(app, serving)
    trusting = ssl.create_default_context(cafile=cert)
    route = Route(trusting, timeout_s=60.0, named=(found.origin,))  # as if it were the internet
    monkeypatch.setattr(documents, "ROUTE", route)
    yield found
    found.go_on.set()
    await runner.cleanup()


async def test_slow_documents_hold_up_who_names_them_and_nobody_else(site: Site) -> None:
    found = Documents()
    slow = [
        asyncio.create_task(found.client(f"{site.origin}/slow/{number}", ANN))
        for number in range(20)
    ]
    await until(lambda: len(site.asked) == 8)
    waiting = asyncio.create_task(found.client(f"{site.origin}/quick", ANN))
    async with asyncio.timeout(15):
        assert (await found.client(f"{site.origin}/quick", BOB)).name
    assert len(site.asked) == 9
    site.go_on.set()
    async with asyncio.timeout(15):
        ended = await asyncio.gather(*slow, return_exceptions=True)
        assert (await waiting).host == "127.0.0.1"
    assert {type(one) for one in ended} == {UnusableClient}


async def test_what_is_no_plain_url_is_not_read() -> None:
    """A host of other letters is looked up letter by letter."""
    steps = 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1

    found = Documents()
    sys.setprofile(step)
    try:
        with pytest.raises(UnusableClient, match="plain form"):
            await found.client(f"https://{'ü' * 20_000}/client", ANN)
    finally:
        sys.setprofile(None)
    assert steps < 500


@pytest.mark.parametrize("host", ["xn--a.invalid", "xn--.invalid", "xn--a-ecp.invalid"])
async def test_a_host_that_stands_for_no_name_is_not_had(host: str) -> None:
    with pytest.raises(UnusableClient, match="cannot be had"):
        await Documents().client(f"https://{host}/client", ANN)


async def test_who_wants_the_same_waits_for_the_same(site: Site) -> None:
    found = Documents()
    async with asyncio.timeout(15):
        clients = await asyncio.gather(
            *(found.client(f"{site.origin}/quick", f"192.0.2.{n}") for n in range(20))
        )
    assert len({id(client) for client in clients}) == 1
    assert site.asked == ["/quick"]


async def test_a_host_that_is_down_logs_none_of_its_clients_out(site: Site) -> None:
    clock = FakeClock()
    found = Documents(clock=clock.now)
    url = f"{site.origin}/quick"
    await found.client(url, ANN)
    for status in (503, 429):
        site.status = status
        await clock.advance(301)
        assert (await found.client(url, ANN)).id == url
        with pytest.raises(UnusableClient, match=f"HTTP {status}"):  # it was never there
            await found.client(f"{site.origin}/{status}", ANN)
    assert len(site.asked) == 5
    await clock.advance(86_401)
    with pytest.raises(UnusableClient, match="HTTP 429"):
        await found.client(url, ANN)
    site.status = 200
    await clock.advance(31)
    await found.client(url, ANN)
    for status in (404, 503):  # it is gone, and nobody remembers it
        site.status = status
        await clock.advance(301)
        with pytest.raises(UnusableClient, match=f"HTTP {status}"):
            await found.client(url, ANN)


async def test_nobody_finds_out_which_names_there_are_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, answers = Documents(), set[str]()
    nobody_knows(monkeypatch, "no-such-name.invalid")
    for host in ("127.0.0.1:9", "localhost", "no-such-name.invalid"):
        with pytest.raises(UnusableClient) as told:
            await found.client(f"https://{host}/client", ANN)
        answers.add(told.value.description.replace(host, "HOST"))
    assert len(answers) == 1, answers


async def test_what_is_no_document_takes_the_place_of_none(site: Site) -> None:
    found = Documents()
    await found.client(f"{site.origin}/quick", ANN)
    for number in range(1_100):
        with pytest.raises(UnusableClient, match="does not hold"):
            await found.client(f"https://client.example/#{number}", ANN)
    await found.client(f"{site.origin}/quick", ANN)
    assert site.asked == ["/quick"]


async def test_a_host_of_letters_that_look_alike_is_told_as_it_is_asked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    usual = loop.getaddrinfo

    async def getaddrinfo(_host: str, *args: Any, **more: Any) -> list[Any]:
        return await usual("127.0.0.1", *args, **more)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    assert isinstance(documents.ROUTE.tls, ssl.SSLContext)
    documents.ROUTE.tls.check_hostname = False
    host = "\N{CYRILLIC SMALL LETTER ES}laude.example".encode("idna").decode()
    site.origin = f"https://{host}:{urlsplit(site.origin).port}"
    assert (await Documents().client(f"{site.origin}/it", ANN)).host == host


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1%eth0", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("", "", True),
        ("unix:a", "unix:b", False),
    ],
)
async def test_an_address_stands_for_all_that_its_owner_has(
    one: str, other: str, *, alike: bool
) -> None:
    assert (network_of(one) == network_of(other)) is alike


async def test_large_documents_are_kept_by_their_size(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_KEPT_BYTES", 100_000)
    key = {"kty": "oct", "k": "x" * 30_000}
    site.more = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [key]}}
    found = Documents()
    for name in "abcda":
        assert "x" * 30_000 in (await found.client(f"{site.origin}/{name}", ANN)).keys
    assert site.asked == ["/a", "/b", "/c", "/d", "/a"], "the oldest was not kept"
    await found.client(f"{site.origin}/d", ANN)
    assert len(site.asked) == 5


@pytest.mark.parametrize("name", [None, "", 3])
async def test_a_document_says_what_its_client_is_called(site: Site, name: Any) -> None:
    """The specification requires it, and people decide by it."""
    site.more = {"client_name": name}
    with pytest.raises(UnusableClient, match="it has no client_name"):
        await Documents().client(f"{site.origin}/client", ANN)
