from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from yarl import URL

from armory.http1.connecting import addresses_of, connected
from armory.http1.pool import Connections
from armory.http1.response import NoConnection
from tests.unit.http1.peer import OK, peer

pytestmark = pytest.mark.anyio


def entry(address: str, port: int) -> Any:
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # only connected
            await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def connections() -> AsyncGenerator[Connections]:
    found = Connections(True, 5.0, 4.0)
    yield found
    found.close()


def resolve(monkeypatch: pytest.MonkeyPatch, *found: Any) -> None:
    """Have every name be at these addresses; uvloop asks for addresses, too."""
    loop = asyncio.get_running_loop()
    usual = loop.getaddrinfo

    async def getaddrinfo(host: str, *args: Any, **more: Any) -> list[Any]:
        return [*found] if host.endswith(".test") else await usual(host, *args, **more)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)


@contextmanager
def deaf(port: int) -> Generator[str]:
    """An address where nothing is refused and nothing answers: its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", port))
        listener.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.2", port))
        yield "127.0.0.2"


@pytest.mark.skipif(sys.platform != "linux", reason="further loopback addresses, full queues")
async def test_an_address_that_does_not_answer_costs_no_more_than_a_moment(
    port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    with deaf(port) as address:
        resolve(monkeypatch, entry(address, port), entry("127.0.0.1", port))
        answer = await connections.request("GET", URL(f"http://both.test:{port}/"), {}, None, 5)
        assert answer.status == 204
        await answer.read()
        deaf_alone = Connections(True, 0.2, 4.0)
        with pytest.raises(NoConnection, match=r"^not within 0\.2 s"):
            await deaf_alone.request("GET", URL(f"http://{address}:{port}/"), {}, None, 5)


async def test_an_address_that_refuses_leaves_the_next(
    port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unheard:  # bound, and nobody listens
        unheard.bind(("127.0.0.1", 0))
        nobody = unheard.getsockname()
        resolve(monkeypatch, entry(*nobody), entry("127.0.0.1", port))
        answer = await connections.request("GET", URL(f"http://both.test:{port}/"), {}, None, 5)
        assert answer.status == 204
        await answer.read()
        resolve(monkeypatch, entry(*nobody), entry(*nobody))
        with pytest.raises(NoConnection, match=r"^Connection refused$"):
            await connections.request("GET", URL("http://nobody.test/"), {}, None, 5)


async def test_a_name_that_is_not_looked_up_in_time_is_called_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def getaddrinfo(*_args: Any, **_more: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    connections = Connections(True, 0.05, 4.0)
    with pytest.raises(NoConnection, match=r"^'slow\.test' is not looked up within 0\.05 s$"):
        await connections.request("GET", URL("http://slow.test/"), {}, None, 5)


@pytest.mark.parametrize("zone", ["%25eth0", "%eth0"])
async def test_the_interface_of_an_address_is_for_the_lookup_alone(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    asked: list[str] = []
    async with peer(OK) as (scripted, connections):
        assert scripted.url.port is not None
        there = entry("127.0.0.1", scripted.url.port)

        async def getaddrinfo(host: str, *_args: Any, **_more: Any) -> list[Any]:
            asked.append(host)
            return [there]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        url = URL(f"http://[fe80::1{zone}]:{scripted.url.port}/")
        answer = await connections.request("GET", url, {}, None, 5)
        await answer.read()
        assert asked[0] == "fe80::1%eth0"
        assert b"\r\nHost: [fe80::1]:%d\r\n" % scripted.url.port in scripted.heads[0]


def of_one_link() -> Generator[str]:
    """Addresses of this machine that are the same on every interface."""
    with suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for address, _, _, scope, _, name in map(str.split, file):
            if scope == "20":
                yield f"{ipaddress.IPv6Address(bytes.fromhex(address))}%{name}"


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)
async def test_an_address_of_one_link_is_reached() -> None:
    address = next(of_one_link(), None)
    if address is None:
        pytest.skip("no interface has an address of its link")

    def opened(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(opened, "::", 0) as server:
        found = await addresses_of(address, server.sockets[0].getsockname()[1])
        (await connected(found)).close()


async def test_a_silent_connection_is_probed(port: int) -> None:
    with await connected([entry("127.0.0.1", port)]) as found:
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            asked = [found.getsockopt(socket.IPPROTO_TCP, option) for option in options]
            assert asked == [30, 10, 3]


async def test_https_to_a_server_of_http_is_called_so(connections: Connections) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = URL(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        with pytest.raises(NoConnection, match="no TLS is spoken there; is it http:// "):
            await connections.request("POST", url, {}, b"{}", 5)
