"""What one attack of a hostile client has at hand.

Owns: `Attacker`: its time, its connections, requests made by hand. Never imports the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks.attack.good import Authorized
from benchmarks.load.driver import modern_meta, prepare

PAUSE_S = 0.02
"""Between two requests of one attacker, so that it does not take the machine from the gateway."""
ERRORS = (OSError, EOFError, TimeoutError, ValueError, SystemExit, asyncio.LimitOverrunError)


class Attacker:
    """What an attack has at hand.

    Args:
        base: `http://127.0.0.1:PORT` of the gateway.
        token: of the hostile principal.
        seconds: how long it goes on.
    """

    def __init__(self, base: str, token: str, seconds: float) -> None:
        parts = urlsplit(base)
        self.address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.base = base
        self.token = token
        self.end = time.monotonic() + seconds
        self.open: list[Any] = []
        self.numbers = itertools.count(1)

    @property
    def going(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self.end

    async def connection(self, era: str = "", path: str = "/mcp") -> Authorized:
        """An HTTP connection; with an era, ready for its requests."""
        made = Authorized(self.base + path, self.token)
        if era:
            await prepare(made, era, "tools/list", "")
            made.headers = made.headers.replace("Mcp-Method: tools/list\r\n", "")
        else:
            await made.open()
        return made

    async def socket(self, said: bytes, narrow: bool = False) -> tuple[Any, Any]:
        """A connection on which `said` was sent."""
        raw = socket.socket()
        if narrow:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, self.address)
        reader, writer = await asyncio.open_connection(sock=raw)
        writer.write(said)
        return reader, writer

    def head(self, line: str, *more: str) -> bytes:
        """The header of a request by hand."""
        lines = (line, "Host: 127.0.0.1", f"Authorization: Bearer {self.token}", *more)
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def modern(self, method: str, params: dict[str, Any], **meta: Any) -> tuple[bytes, str]:
        """A modern request's body and its own headers."""
        params = {**params, "_meta": modern_meta(**meta)}
        extra = f"Mcp-Method: {method}\r\n"
        if name := params.get("name", params.get("taskId")):
            extra += f"Mcp-Name: {name}\r\n"
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}
        return json.dumps(message).encode(), extra

    async def repeat(self, times: int, one: Callable[[], Awaitable[None]]) -> None:
        """`one` again and again, `times` of them side by side."""

        async def loop() -> None:
            while self.going:
                with contextlib.suppress(*ERRORS):
                    async with asyncio.timeout(max(0.1, self.end - time.monotonic())):
                        await one()
                await asyncio.sleep(PAUSE_S)

        await asyncio.gather(*(loop() for _ in range(times)))
