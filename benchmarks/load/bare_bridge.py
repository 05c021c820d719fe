"""The floor before a stdio server: aiohttp in front, one process behind, ids mapped, nothing else.

Owns: one writer, one reader, a map of the ids in flight. Parameters and results stay bytes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web


class _Message(msgspec.Struct, omit_defaults=True):
    id: msgspec.Raw
    jsonrpc: str = "2.0"
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.encode


class Bridge:
    """One child process and the requests that wait for it."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._waiting: dict[bytes, asyncio.Future[_Message]] = {}
        self._last = 0

    async def run(self, _: web.Application) -> AsyncIterator[None]:
        """The process, for as long as the server lives."""
        pipe = asyncio.subprocess.PIPE
        self._child = await asyncio.create_subprocess_exec(
            *self._argv, stdin=pipe, stdout=pipe, limit=1 << 24
        )
        reader = asyncio.create_task(self._read())
        yield
        reader.cancel()
        self._child.terminate()
        await self._child.wait()

    async def _read(self) -> None:
        assert self._child.stdout is not None
        while line := await self._child.stdout.readline():
            message = _decode(line)
            self._waiting.pop(bytes(message.id)).set_result(message)

    async def handle(self, request: web.Request) -> web.Response:
        """One request, one line; its answer back."""
        body = await request.read()
        if b'"id"' not in body:
            return web.Response(status=202)
        message = _decode(body)
        self._last += 1
        asked, key = message.id, b"%d" % self._last
        message.id = msgspec.Raw(key)
        waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        assert self._child.stdin is not None
        self._child.stdin.write(_encode(message) + b"\n")
        reply = await waiting
        reply.id = asked
        return web.Response(body=_encode(reply), content_type="application/json")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("argv", nargs="+")
    args = parser.parse_args()
    bridge = Bridge(args.argv)
    app = web.Application(client_max_size=1 << 24)
    app.cleanup_ctx.append(bridge.run)
    app.router.add_post("/mcp", bridge.handle)
    web.run_app(app, host="127.0.0.1", port=args.port, print=None)


if __name__ == "__main__":
    main()
