"""Hostile clients: each attack runs in a process of its own until its time is over.

Owns: the attacks (`ATTACKS`). What they are answered does not matter here; that the gateway goes on
answering others is measured elsewhere. Never imports the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.attack.attacker import Attacker

_CROWD = 18_000
"""Connections that are kept open; what the gateway closed stays among them."""
Attack = Callable[[Attacker], Coroutine[Any, Any, None]]


async def depth(a: Attacker) -> None:
    """Bodies that a careless check of depth goes over again and again."""
    bodies = [
        b"[" * 300 + b'"' + b'\\"' * 32_000,
        b"[" * 300 + b'"' + b'\\"' * 2_000_000,
        b"[" * 4_000_000,
        b'{"a":' * 600_000,
        b'{"jsonrpc":"2.0","id":' + b"9" * 4_000_000 + b"}",
    ]
    chosen = itertools.cycle(bodies)

    async def one() -> None:
        connection = await a.connection()
        await connection.post(next(chosen))
        connection.writer.close()

    await a.repeat(4, one)


async def queries(a: Attacker) -> None:
    """Searches of allowed length that are dear."""
    texts: list[Any] = [
        "a" + " " * 7_900 + "b", "a" + "\t" * 7_900 + "b", "a, and " * 1_100, ". " * 3_900,
        ["x" * 400] * 16, ["x"] * 8_000, "send mail then " * 500, "é" * 7_000, "\u0000" * 4_000,
    ]  # fmt: skip
    chosen = itertools.cycle(texts)

    async def one() -> None:
        connection = await a.connection("modern")
        for _ in range(20):
            await connection.post(*a.modern("tools/list", {}, **{"dev.armory/query": next(chosen)}))
        connection.writer.close()

    await a.repeat(24, one)


async def batches(a: Attacker) -> None:
    """Batches of many lists, and of more than are allowed."""
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}},
    }

    async def one() -> None:
        connection = await a.connection()
        _, headers, _ = await connection.post(json.dumps(hello).encode())
        connection.headers = f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n"
        for count in (100, 3_000, 100):
            batch = [{"jsonrpc": "2.0", "id": i, "method": "tools/list"} for i in range(count)]
            await connection.post(json.dumps(batch).encode())
        connection.writer.close()

    await a.repeat(4, one)


async def silence(a: Attacker) -> None:
    """Connections that say nothing, or half of something."""
    halves = [
        b"", b"POST /mc", b"POST /mcp HTTP/1.1\r\nHost: a\r\nX-A: ",
        a.head("POST /mcp HTTP/1.1", "Content-Length: 4000000") + b"x" * 1_000_000,
        a.head("POST /mcp HTTP/1.1", "Transfer-Encoding: chunked") + b"10\r\nab",
    ]  # fmt: skip
    chosen = itertools.cycle(halves)

    async def one() -> None:
        a.open.append(await a.socket(next(chosen)))

    await a.repeat(4, one)


async def crowd(a: Attacker) -> None:
    """More connections than there is room for, each with half of a long header."""
    lines = (f"X-{number}: {'a' * 4_000}" for number in range(15))
    half = a.head("POST /mcp HTTP/1.1", *lines).removesuffix(b"\r\n")

    async def one() -> None:
        for _ in range(10):
            a.open.append(await a.socket(half))
        while len(a.open) > _CROWD:
            a.open.pop(0)[1].transport.abort()

    await a.repeat(4, one)


async def unread(a: Attacker) -> None:
    """Large answers that nobody reads."""

    async def one() -> None:
        body, extra = a.modern("tools/call", {"name": "calls__large", "arguments": {}})
        more = ["MCP-Protocol-Version: 2026-07-28", *extra.strip().split("\r\n")]
        length = f"Content-Length: {len(body)}"
        head = a.head("POST /mcp HTTP/1.1", length, "Content-Type: application/json", *more)
        a.open.append(await a.socket(head + body, narrow=True))
        await asyncio.sleep(0.3)

    await a.repeat(8, one)


async def sessions(a: Attacker) -> None:
    """Sessions that nobody ends."""

    async def one() -> None:
        connection = await a.connection("legacy")
        connection.writer.close()

    await a.repeat(8, one)


async def streams(a: Attacker) -> None:
    """Event streams that nobody reads."""

    async def one() -> None:
        connection = await a.connection("legacy")
        head = a.head(
            "GET /mcp HTTP/1.1",
            "Accept: text/event-stream",
            *connection.headers.strip().split("\r\n"),
        )
        a.open.append(await a.socket(head, narrow=True))
        connection.writer.close()

    await a.repeat(4, one)


async def churn(a: Attacker) -> None:
    """Calls whose client leaves at once."""

    async def one() -> None:
        connection = await a.connection("modern")
        connection.writer.write(b"")
        body, extra = a.modern("tools/call", {"name": "calls__hang", "arguments": {}})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection.post(body, extra), 0.05)
        connection.writer.transport.abort()

    await a.repeat(8, one)


async def answers(a: Attacker) -> None:
    """Calls whose answers are large, deep, no text, never whole or never there."""
    names = itertools.cycle(["large", "nested", "surrogates", "dribble", "hang"])

    async def one() -> None:
        connection = await a.connection("modern")
        server = random.choice(("calls", "pipes"))
        body, extra = a.modern("tools/call", {"name": f"{server}__{next(names)}", "arguments": {}})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection.post(body, extra), 5)
        connection.writer.transport.abort()

    await a.repeat(12, one)


async def questions(a: Attacker) -> None:
    """Calls that ask a person who never answers."""
    meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}

    async def one() -> None:
        connection = await a.connection("modern")
        await connection.post(
            *a.modern("tools/call", {"name": "calls__ask", "arguments": {}}, **meta)
        )
        connection.writer.close()

    await a.repeat(16, one)


async def tokens(a: Attacker) -> None:
    """Forged credentials, long headers, other hosts."""
    said = [
        a.head("POST /mcp HTTP/1.1", "Content-Length: 2").replace(a.token.encode(), forged) + b"{}"
        for forged in (
            b"x" * 60_000, b"a.b.c", b"eyJhbGciOiJub25lIn0.e30.", b"." * 1_000, b"\xff" * 500,
            b"eyJhbGciOiJSUzI1NiJ9." + b"A" * 50_000 + b".AA",
        )
    ]  # fmt: skip
    said += [
        a.head("GET /mcp HTTP/1.1", "X: " + "y" * 200_000),
        a.head("GET /mcp HTTP/1.1", *(f"X{i}: y" for i in range(5_000))),
        a.head("POST /mcp HTTP/1.1", "Content-Length: 2", "Content-Length: 3") + b"{}1",
        a.head("POST /mcp HTTP/1.1", "Host: [localhost].evil.example:80", "Content-Length: 0"),
    ]
    chosen = itertools.cycle(said)

    async def one() -> None:
        reader, writer = await a.socket(next(chosen))
        await asyncio.wait_for(reader.read(65_536), 2)
        writer.transport.abort()

    await a.repeat(8, one)


async def garbage(a: Attacker) -> None:
    """Bytes that are no HTTP, no JSON, no MCP; and every path there is."""
    paths = [
        "/mcp", "/mcp/good", "/mcp/set/none", "/v1/tools", "/v1/search", "/v1/upstreams",
        "/metrics", "/readyz", "/mcp/%00", "/../../etc/passwd", "/mcp/" + "a" * 5_000,
    ]  # fmt: skip
    methods = ["POST", "GET", "DELETE", "PUT", "OPTIONS", "X" * 100]

    async def one() -> None:
        body = os.urandom(random.randrange(4_000))
        if random.random() < 0.3:
            said = body
        else:
            line = f"{random.choice(methods)} {random.choice(paths)} HTTP/1.1"
            said = a.head(line, f"Content-Length: {len(body)}", "Connection: close") + body
        reader, writer = await a.socket(said)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(65_536), 1)
        writer.transport.abort()

    await a.repeat(8, one)


async def tasks(a: Attacker) -> None:
    """Tasks of others, by ids that are guessed."""
    methods = itertools.cycle(["tasks/get", "tasks/cancel", "tasks/result", "tasks/update"])

    async def one() -> None:
        connection = await a.connection("modern")
        for _ in range(50):
            await connection.post(*a.modern(next(methods), {"taskId": f"t{random.random()}"}))
        connection.writer.close()

    await a.repeat(4, one)


async def declared(a: Attacker) -> None:
    """Handshakes that declare much, streams that ask to hear of much."""
    capabilities = [
        {"extensions": {f"x{n}": {} for n in range(count)}} for count in (3_000, 90_000)
    ]
    uris = [f"x:{number}" for number in range(100_000)]
    chosen, counts = itertools.cycle(capabilities), itertools.cycle((40_000, 100_000))

    async def one() -> None:
        connection = await a.connection()
        hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "a", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        await connection.post(
            json.dumps({**message, "params": {**hello, "capabilities": next(chosen)}}).encode()
        )
        connection.writer.close()
        wanted = {"notifications": {"resourceSubscriptions": uris[: next(counts)]}}
        body, extra = a.modern("subscriptions/listen", wanted)
        more = ["MCP-Protocol-Version: 2026-07-28", *extra.strip().split("\r\n")]
        length = f"Content-Length: {len(body)}"
        head = a.head("POST /mcp HTTP/1.1", length, "Content-Type: application/json", *more)
        reader, writer = await a.socket(head + body)
        await reader.readuntil(b'"jsonrpc"')
        writer.transport.abort()

    await a.repeat(3, one)


async def arguments(a: Attacker) -> None:
    """Large calls at an upstream that does not answer."""
    large = {"name": "calls__hang", "arguments": {"text": "x" * 2_000_000}}

    async def one() -> None:
        connection = await a.connection("modern")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection.post(*a.modern("tools/call", large)), 5)
        connection.writer.transport.abort()

    await a.repeat(12, one)


async def messages(a: Attacker) -> None:
    """Large answers on event streams of HTTP+SSE that nobody reads."""

    async def one() -> None:
        reader, writer = await a.socket(a.head("GET /sse HTTP/1.1"), narrow=True)
        a.open.append((reader, writer))
        await reader.readuntil(b"session_id=")
        session = (await reader.readuntil(b"\n"))[:-1].decode()
        poster = await a.connection(path=f"/messages?session_id={session}")
        for _ in range(20):
            body, _ = a.modern("tools/call", {"name": "calls__large", "arguments": {}})
            await poster.post(body)
        poster.writer.close()

    await a.repeat(3, one)


async def wide(a: Attacker) -> None:
    """Hundreds of thousands of members where a few are known, in requests and in answers."""
    many = {f"k{number:x}": 0 for number in range(300_000)}
    call = {"name": "calls__echo", "arguments": {}}
    said = [
        a.modern("tools/call", {**call, **many}),
        a.modern("tools/call", call, **many),
        a.modern("tools/call", {**call, "arguments": many}),
        a.modern("tools/call", {"name": "calls__wide", "arguments": {}}),
        a.modern("tools/call", {"name": "calls__links", "arguments": {}}),
        a.modern("completion/complete", {"ref": many, "argument": many}),
    ]
    body = json.dumps({"query": "a", **many}).encode()
    more = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    rest = a.head("POST /v1/retrieve_tools HTTP/1.1", *more, "Connection: close") + body
    chosen = itertools.cycle([*said, None])

    async def one() -> None:
        now = next(chosen)
        if now is None:
            reader, writer = await a.socket(rest)
            await asyncio.wait_for(reader.read(65_536), 5)
            writer.transport.abort()
            return
        connection = await a.connection("modern")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection.post(*now), 5)
        connection.writer.transport.abort()

    await a.repeat(4, one)


ATTACKS: dict[str, Attack] = {
    made.__name__: made
    for made in (
        depth, queries, batches, silence, crowd, unread, sessions, streams, churn, answers,
        questions, tokens, garbage, tasks, declared, arguments, messages, wide,
    )
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--base", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    attacker = Attacker(args.base, args.token, args.seconds)
    asyncio.run(ATTACKS[args.attack](attacker))


if __name__ == "__main__":
    main()
