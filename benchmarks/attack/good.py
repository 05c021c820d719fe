"""Good clients at a steady rate, and what they see.

Owns: clients of both eras that call, list and search at times set beforehand, probes of `/healthz`
and of a server that does nothing, which shows what the machine itself does, and how late timers of
this process are, which shows what it does itself. Each answer is one line of JSON on standard
output: when it was due, when it came, and whether it was right. Latency counts from when a request
was due. Never imports the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.load.driver import Connection, modern_meta, prepare

PATIENCE_S = 30.0
BACKLOG_S = 2.0
"""What came due earlier is left out: one stall would be counted in every later time."""


@dataclass(frozen=True)
class Duty:
    """One client's requests.

    Attributes:
        kind: what its lines are called.
        era: `modern`, `legacy`, or empty for a plain GET.
        method: the MCP method, or the path of a GET; empty: nothing is asked.
        name: the tool that it calls.
        query: what it searches for.
        every_s: seconds between two requests.
    """

    kind: str
    era: str
    method: str
    name: str = ""
    query: str = ""
    every_s: float = 0.1


_CALLS_S, _PROBES_S = 0.1, 0.05
DUTIES = (
    *(Duty("call http", "modern", "tools/call", "good__echo", every_s=_CALLS_S) for _ in range(2)),
    *(Duty("call http", "legacy", "tools/call", "good__echo", every_s=_CALLS_S) for _ in range(2)),
    Duty("call stdio", "modern", "tools/call", "pipe__echo", every_s=_CALLS_S),
    Duty("call stdio", "legacy", "tools/call", "pipe__echo", every_s=_CALLS_S),
    *(
        Duty("search", "modern", "tools/list", query=query, every_s=0.2)
        for query in ("write a mail to somebody", "book a table for two")
    ),
    Duty("health", "", "/healthz", every_s=_PROBES_S),
    Duty("control", "", "/healthz", every_s=_PROBES_S),
    Duty("client", "", "", every_s=_PROBES_S),
)
"""A p99 is one once a window has a hundred answers of a kind: ten a second and more of each."""


class Client:
    """One connection that does its duty.

    Args:
        base: `http://127.0.0.1:PORT` of the gateway, or of the server that does nothing.
        token: the bearer's.
        duty: what to ask, and how often.
    """

    def __init__(self, base: str, token: str, duty: Duty) -> None:
        self._url = base + ("/mcp" if duty.era else duty.method)
        self._token = token
        self._duty = duty
        self._connection: Connection | None = None
        self._number = 0

    async def run(self, begin: float) -> None:
        """Ask until cancelled; a request that comes late counts from when it was due."""
        due = begin
        while True:
            due = max(due + self._duty.every_s, time.monotonic() - BACKLOG_S)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    wrong = await self._ask()
            except (OSError, EOFError, TimeoutError, ValueError, SystemExit) as error:
                wrong = f"{type(error).__name__}: {error}"[:200]
                self._drop()
            now = time.monotonic()
            line = {"kind": self._duty.kind, "due": round(due, 4), "came": round(now, 4)}
            print(json.dumps({**line, "wrong": wrong} if wrong else line), flush=True)

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(AttributeError):
                self._connection.writer.transport.abort()
        self._connection = None

    async def _ask(self) -> str:
        """One request; what is wrong with its answer."""
        duty = self._duty
        if not duty.method:
            return ""
        if self._connection is None:
            self._connection = Authorized(self._url, self._token)
            if duty.era:
                await prepare(self._connection, duty.era, duty.method, duty.name)
            else:
                await self._connection.open()
        if not duty.era:
            status, _, _ = await self._connection.send("GET", b"")
            return "" if status == 200 else f"HTTP {status}"
        self._number += 1
        status, _, content = await self._connection.post(self._body())
        right = b"xxxxxxxxxx" if duty.name else b"dev.armory/selection"
        if status == 200 and right in content and b"dev.armory/degraded" not in content:
            return ""
        return f"HTTP {status} {' '.join(content[:200].decode(errors='replace').split())}"

    def _body(self) -> bytes:
        duty = self._duty
        params: dict[str, Any] = {"name": duty.name, "arguments": {}} if duty.name else {}
        if duty.era == "modern":
            params["_meta"] = modern_meta(
                **({"dev.armory/query": duty.query} if duty.query else {})
            )
        message = {"jsonrpc": "2.0", "id": self._number, "method": duty.method, "params": params}
        return json.dumps(message).encode()


class Authorized(Connection):
    """A connection whose every request carries a token."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url)
        self._bearer = f"Authorization: Bearer {token}\r\n"

    async def send(
        self, method: str, body: bytes, extra: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        """One request with the token."""
        return await super().send(method, body, self._bearer + extra)


async def work(base: str, control: str, token: str) -> None:
    """Every duty at once, spread over its interval."""
    begin = time.monotonic()
    clients = [
        Client(control if duty.kind == "control" else base, token, duty).run(begin + 0.013 * place)
        for place, duty in enumerate(DUTIES)
    ]
    await asyncio.gather(*clients)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True)
    parser.add_argument("--control", required=True)
    parser.add_argument("--token", required=True)
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(args.base, args.control, args.token))


if __name__ == "__main__":
    main()
