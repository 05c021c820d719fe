"""A balancer like a Service: each connection goes to a replica that is ready, in turn.

Owns: the copying of bytes and asking `/readyz`. Knows nothing of MCP; a connection stays where it
is, whatever becomes of its replica's readiness.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

_ASKED_EVERY_S = 0.25
_ANSWERED_WITHIN_S = 1.0
_FAILURES = 2
"""So many refusals in a row make a replica one that gets no connection."""


class Balancer:
    """The balancer.

    Attributes:
        port: where it listens, on 127.0.0.1.
        ready: which replicas get connections.
        gave_up: connections that were ended because no replica took them, by reason.

    Args:
        targets: (host, port) of each replica.
    """

    def __init__(self, targets: Sequence[tuple[str, int]]) -> None:
        self._targets = tuple(targets)
        self._refused = dict.fromkeys(self._targets, _FAILURES)
        self._turn = count()
        self.gave_up: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._asking: list[asyncio.Task[None]] = []
        self.port = 0

    @property
    def ready(self) -> list[tuple[str, int]]:
        return [target for target, refused in self._refused.items() if refused < _FAILURES]

    async def __aenter__(self) -> Balancer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._asking = [asyncio.create_task(self._ask_on(target)) for target in self._targets]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.wait(self._asking)
        assert self._server is not None
        self._server.close()

    async def wait_ready(self, number: int, within_s: float = 90.0) -> None:
        """Wait until so many replicas are ready."""
        async with asyncio.timeout(within_s):
            while len(self.ready) != number:  # noqa: ASYNC110 - other processes have no event
                await asyncio.sleep(0.05)

    async def _ask_on(self, target: tuple[str, int]) -> None:
        while True:
            try:
                async with asyncio.timeout(_ANSWERED_WITHIN_S):
                    well = await self._ask(target)
            except (OSError, TimeoutError, EOFError):
                well = False
            self._refused[target] = 0 if well else self._refused[target] + 1
            await asyncio.sleep(_ASKED_EVERY_S)

    @staticmethod
    async def _ask(target: tuple[str, int]) -> bool:
        reader, writer = await asyncio.open_connection(*target)
        try:
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b" 200 " in await reader.readline()
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = self.ready
        if not found:
            self.gave_up["no replica is ready"] += 1
            writer.close()
            return
        target = found[next(self._turn) % len(found)]
        try:
            async with asyncio.timeout(5.0):
                back, forth = await asyncio.open_connection(*target)
        except (OSError, TimeoutError) as error:
            self.gave_up[repr(error)] += 1
            writer.transport.abort()
            return
        await asyncio.gather(self._copy(reader, forth), self._copy(back, writer))

    @staticmethod
    async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        with suppress(OSError):
            sink.close()
