"""What an upstream speaks: probe first, fall back, remember, respect the pin."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingObserver, plain
from armory.testing.upstreams.exchange import DRAFT, LEGACY
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.verdict import Verdict
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

PATHS = ":".join(path for path in sys.path if path)
INFO = {"name": "test", "version": "0"}


def stdio(*options: str, **more: Any) -> UpstreamSpec:
    args = ("-m", "armory.testing.upstreams.stdio", *options)
    return UpstreamSpec("up", command=sys.executable, args=args, env={"PYTHONPATH": PATHS}, **more)


class Opener:
    """Connects, and closes everything in the end."""

    def __init__(self) -> None:
        self.links: list[BaseLink] = []
        self.connectors: list[Connector] = []

    def connector(self, spec: UpstreamSpec) -> Connector:
        self.connectors.append(Connector(spec, INFO))
        return self.connectors[-1]

    async def connect(self, connector: Connector) -> BaseLink:
        link = await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        self.links.append(link)
        return link

    async def open(self, spec: UpstreamSpec) -> BaseLink:
        return await self.connect(self.connector(spec))


@pytest.fixture
async def opener() -> AsyncIterator[Opener]:
    opener = Opener()
    yield opener
    for link in opener.links:
        await link.close()
    for connector in opener.connectors:
        await connector.close()


async def works(link: BaseLink) -> bool:
    params = {"name": Raw(b'"echo"'), "arguments": Raw(b"{}")}
    reply = await link.request(Call("tools/call", params, name_header="echo"))
    return plain(reply.result)["isError"] is False


# --- stdio


@pytest.mark.parametrize(
    ("options", "era"),
    [
        (("--era", "both"), "modern"),
        (("--era", "modern"), "modern"),
        (("--era", "legacy"), "legacy"),
        (("--era", "legacy", "--exit-on-unknown"), "legacy"),
    ],
)
async def test_the_era_of_a_process_is_found_and_remembered(
    opener: Opener, options: tuple[str, ...], era: str
) -> None:
    connector = opener.connector(stdio(*options))
    link = await opener.connect(connector)
    assert link.era == era
    assert await works(link)
    again = await opener.connect(connector)
    assert again.era == era
    assert await works(again)


async def test_a_server_that_is_silent_to_the_probe_gets_initialize_beside_it(
    opener: Opener,
) -> None:
    link = await opener.open(stdio("--era", "legacy", "--mute-on-unknown", connect_timeout_s=3))
    assert link.era == "legacy"
    assert await works(link)


@pytest.mark.parametrize("revision", [DRAFT, *LEGACY])
async def test_any_older_revision_is_accepted(opener: Opener, revision: str) -> None:
    link = await opener.open(stdio("--era", "legacy", "--revision", revision))
    assert link.protocol_version == revision
    assert await works(link)


async def test_a_pin_is_kept(opener: Opener) -> None:
    link = await opener.open(stdio("--era", "both", protocol="2025-06-18"))
    assert (link.era, link.protocol_version) == ("legacy", "2025-06-18")
    link = await opener.open(stdio("--era", "both", protocol="2026-07-28"))
    assert link.era == "modern"
    with pytest.raises(UpstreamUnavailable, match="pinned to 2026-07-28, and does not speak it"):
        await opener.open(stdio("--era", "legacy", protocol="2026-07-28"))
    with pytest.raises(UpstreamUnavailable, match="refused to initialize: -32022"):
        await opener.open(stdio("--era", "modern", protocol="2025-11-25"))


async def test_a_server_that_always_exits_is_an_error(opener: Opener) -> None:
    with pytest.raises(UpstreamUnavailable, match="exited with status 3"):
        await opener.open(stdio("--exit-at-start"))


async def test_a_server_that_never_answers_is_an_error(opener: Opener) -> None:
    spec = UpstreamSpec(
        "up",
        command=sys.executable,
        args=("-c", "input()\ninput()\ninput()\ninput()\ninput()"),
        connect_timeout_s=0.6,
    )
    with pytest.raises(UpstreamUnavailable, match="did not answer initialize"):
        await opener.open(spec)


async def test_the_real_time_server(opener: Opener) -> None:
    pytest.importorskip("mcp_server_time")
    spec = UpstreamSpec("time", command=sys.executable, args=("-m", "mcp_server_time"))
    link = await opener.open(spec)
    assert link.era == "modern"
    params = {"name": Raw(b'"get_current_time"'), "arguments": Raw(b'{"timezone":"UTC"}')}
    reply = await link.request(Call("tools/call", params))
    assert plain(reply.result)["isError"] is False


# --- HTTP


@pytest.mark.parametrize(
    ("eras", "era", "transport"),
    [
        ("both", "modern", "streamable-http"),
        ("modern", "modern", "streamable-http"),
        ("legacy", "legacy", "streamable-http"),
    ],
)
async def test_era_and_transport_of_a_url_are_found(
    opener: Opener, eras: str, era: str, transport: str
) -> None:
    async with HttpUpstream(eras=eras) as server:
        connector = opener.connector(UpstreamSpec("up", url=server.url))
        link = await opener.connect(connector)
        assert connector.verdict == Verdict(era, transport)  # pyright: ignore[reportArgumentType]
        assert await works(link)


@pytest.mark.parametrize("in_json", [False, True])
async def test_sse_is_found_last_or_named(opener: Opener, in_json: bool) -> None:
    async with HttpUpstream(eras="") as server:
        server.refuses_in_json = in_json
        for spec in (
            UpstreamSpec("up", url=server.sse_url),
            UpstreamSpec("up", url=server.sse_url, transport="sse"),
        ):
            connector = opener.connector(spec)
            assert await works(await opener.connect(connector))
            assert connector.verdict == Verdict("legacy", "sse")
        with pytest.raises(UpstreamUnavailable, match="HTTP 405"):
            await opener.open(UpstreamSpec("up", url=server.sse_url, transport="streamable-http"))


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_statuses_that_say_nothing_about_eras(opener: Opener, status: int) -> None:
    async with HttpUpstream() as server:
        server.fail_with = status
        connector = opener.connector(UpstreamSpec("up", url=server.url))
        with pytest.raises(UpstreamUnavailable, match=f"HTTP {status}"):
            await opener.connect(connector)
        assert connector.verdict is None
        server.fail_with = None
        assert (await opener.connect(connector)).era == "modern"


async def test_a_pin_over_http(opener: Opener) -> None:
    async with HttpUpstream(eras="both") as server:
        link = await opener.open(UpstreamSpec("up", url=server.url, protocol="2025-06-18"))
        assert (link.era, link.protocol_version) == ("legacy", "2025-06-18")
    async with HttpUpstream(eras="legacy") as server:
        with pytest.raises(UpstreamUnavailable):
            await opener.open(UpstreamSpec("up", url=server.url, protocol="2026-07-28"))


async def test_a_verdict_that_no_longer_holds_is_found_anew(opener: Opener) -> None:
    async with HttpUpstream(eras="legacy") as server:
        connector = opener.connector(UpstreamSpec("up", url=server.url))
        assert (await opener.connect(connector)).era == "legacy"
        server.eras = "modern"
        assert (await opener.connect(connector)).era == "modern"


async def test_a_later_caller_of_a_stateless_upstream_costs_no_round_trip(opener: Opener) -> None:
    async with HttpUpstream(eras="modern") as server:
        connector = opener.connector(UpstreamSpec("up", url=server.url))
        await opener.connect(connector)
        link = await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver(), fresh=False)
        opener.links.append(link)
        assert len(server.requests) == 1
        assert await works(link)


async def test_a_refused_connection_is_told_without_the_password_in_the_url(opener: Opener) -> None:
    async with HttpUpstream() as server:
        url = server.url
    with pytest.raises(UpstreamUnavailable, match=r"'up': no connection to http://127\.0\.0\.1"):
        await opener.open(UpstreamSpec("up", url=url.replace("://", "://user:hush@")))


async def served(handler: Any) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"


async def test_a_redirect_is_followed_within_the_origin_only(opener: Opener) -> None:
    async with HttpUpstream(eras="modern") as server:
        target = server.url

        async def elsewhere(_request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": target})

        runner, url = await served(elsewhere)
        try:
            with pytest.raises(UpstreamUnavailable, match=r"redirects to .* another origin"):
                await opener.open(UpstreamSpec("up", url=url, headers={"Authorization": "x"}))
            assert server.requests == []
        finally:
            await runner.cleanup()


async def test_of_a_very_long_redirect_the_beginning_is_told(opener: Opener) -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        place = f"http://{request.host}/{'a' * 20_000}"  # of the same origin, but for its length
        return web.Response(status=307, headers={"Location": place})

    runner, url = await served(elsewhere)
    try:
        with pytest.raises(UpstreamUnavailable, match="redirects to") as told:
            await opener.open(UpstreamSpec("up", url=url))
        assert len(str(told.value)) < 600
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_where_a_redirect_leads_that_no_post_follows_is_told(
    opener: Opener, status: int
) -> None:
    async def moved(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "https://new.invalid/mcp"})

    runner, url = await served(moved)
    try:
        with pytest.raises(UpstreamUnavailable, match=rf"HTTP {status}; .*https://new.invalid/mcp"):
            await opener.open(UpstreamSpec("up", url=url))
    finally:
        await runner.cleanup()


async def test_a_page_that_is_no_mcp_server(opener: Opener) -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    runner, url = await served(page)
    try:
        with pytest.raises(UpstreamUnavailable, match="content type 'text/html'"):
            await opener.open(UpstreamSpec("up", url=url))
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"hello": 1}', r"""answered HTTP 200 and no JSON-RPC .* answers: '{"hello": 1}'$"""),
        ("", "an empty body, where a JSON-RPC message was expected$"),
    ],
)
async def test_json_that_is_no_message_is_told(opener: Opener, body: str, said: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    runner, url = await served(answer)
    try:
        with pytest.raises(UpstreamUnavailable, match=said):
            await opener.open(UpstreamSpec("up", url=url))
    finally:
        await runner.cleanup()


async def test_versions_that_nobody_here_knows(opener: Opener) -> None:
    async def future(request: web.Request) -> web.Response:
        message = await request.json()
        error = {"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"]}}
        body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return web.json_response(body, status=400)

    runner, url = await served(future)
    try:
        with pytest.raises(UpstreamUnavailable, match=r"speaks \['2031-01-01'\]"):
            await opener.open(UpstreamSpec("up", url=url))
    finally:
        await runner.cleanup()


async def test_a_discovery_without_a_modern_revision_is_a_legacy_server(opener: Opener) -> None:
    class Odd(Script):
        def _modern(self, method: str) -> dict[str, Any]:
            return {**super()._modern(method), "supportedVersions": ["2025-11-25"]}

    async with HttpUpstream(Odd(), eras="both") as server:
        link = await opener.open(UpstreamSpec("up", url=server.url))
        assert link.era == "legacy"
