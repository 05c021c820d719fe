"""A server for the lean client's tests, which says what a test tells it to, HTTP or not.

Owns: `Peer`. Never imports a test.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from yarl import URL

from armory.http1.pool import Connections

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """Answers each request with the next scripted bytes; keeps what it was sent."""

    def __init__(self, *answers: bytes | Answer) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self.connections = 0
        self.url = URL()
        self.asked_twice = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                if len(self.heads) == 2:
                    self.asked_twice.set()
                if b"Content-Length: " in head:
                    size = int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
                    await reader.readexactly(size)
                answer = self.answers.pop(0)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
                if writer.is_closing():
                    break
            if not self.answers and not writer.is_closing():
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def peer(
    *answers: bytes | Answer, keepalive_s: float = 4.0
) -> AsyncGenerator[tuple[Peer, Connections]]:
    scripted = Peer(*answers)
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    scripted.url = URL(f"http://127.0.0.1:{port}/mcp?a=1")
    connections = Connections(True, 5.0, keepalive_s)
    try:
        yield scripted, connections
    finally:
        connections.close()
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)


OK = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n"
    b"{}"
)


async def whole(connections: Connections, url: URL) -> bytes:
    response = await connections.request("POST", url, {}, b"", 5)
    return bytes(await response.read())


async def closing(writer: asyncio.StreamWriter) -> None:
    writer.close()


def saying(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return answer
