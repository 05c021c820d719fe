"""Cancelled in the very moment in which it arrives: such a call ends like any other."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from armory.protocol.link import Call, Owner, Reply

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio


def request(url: str, headers: dict[str, str], message: dict[str, Any]) -> bytes:
    """A POST as bytes."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    path = "/" + url.split("/", 3)[3]
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def test_a_legacy_call_and_its_cancellation_in_one_breath(front: Front) -> None:
    async def soon(_call: Call, _owner: Owner) -> Reply:
        for _ in range(100):
            await asyncio.sleep(0)
        return Reply(result=Raw(b'{"content":[]}'), era="legacy")

    front.pool.upstreams["old"].answer = soon
    client = await front.start_legacy()
    host, port = client.url.split("/")[2].split(":")
    calling, call = await asyncio.open_connection(host, int(port))
    cancelling, cancel = await asyncio.open_connection(host, int(port))
    params = {"name": "old__now", "arguments": {}}
    silent = 0
    for number in range(1, 101):
        message = {"id": number, "method": "tools/call", "params": params}
        call.write(request(client.url, client.headers, message))
        told = {"method": "notifications/cancelled", "params": {"requestId": number}}
        cancel.write(request(client.url, client.headers, told))
        async with asyncio.timeout(10):
            for reader in (cancelling, calling):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
                await reader.readexactly(length)
                silent += reader is calling and " 202 " in head
    assert silent > 0, "none was cancelled in time"
    for writer in (call, cancel):
        writer.close()
        await writer.wait_closed()
