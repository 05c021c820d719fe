"""Answers of a Qdrant that cannot be used: without an end, packed small, nested without end."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import suppress

import pytest

from armory.retrieval.indexes import qdrant_access
from armory.retrieval.indexes.qdrant_access import Searches, StoreFailed

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
MIB = 1 << 20
PACKED = gzip.compress(b" " * (64 * MIB))
DEEP = b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("head", "piece", "pieces", "told"),
    [
        (b"", b" " * MIB, 1_000_000, "over 1 MiB"),
        (b"Content-Encoding: gzip\r\n", PACKED, 1, "over 1 MiB"),
        (b"", DEEP, 1, "is it a Qdrant server"),
    ],
    ids=["endless", "packed", "deep"],
)
async def test_of_an_answer_to_a_search_so_much_is_read(
    monkeypatch: pytest.MonkeyPatch, head: bytes, piece: bytes, pieces: int, told: str
) -> None:
    monkeypatch.setattr(qdrant_access, "_ANSWER_BYTES", MIB)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + head + b"\r\n")
            for _ in range(pieces):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        searches = Searches(f"http://{host}:{port}", None, "tools", 20.0)
        try:
            with pytest.raises(StoreFailed, match=told):
                await searches.points(["1"], vectors=True)
        finally:
            await searches.aclose()
