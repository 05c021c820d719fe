"""The link to a stdio server: one process, one line per message.

Owns: `StdioLink`. Never imports another transport.
"""

from __future__ import annotations

import asyncio
import contextlib

from armory.protocol.methods import LISTEN
from armory.upstreams.session.context import LinkContext
from armory.upstreams.session.duplex import DuplexLink
from armory.upstreams.transports.lines import Lines, answered
from armory.upstreams.transports.process import LAST_WORDS_S, ServerProcess

_WORDS_BYTES = 2_000
_NO_JSON = "its answer is no JSON and was dropped; in JSON there is no NaN, for example"
_DEATH_S = 2 * LAST_WORDS_S
"""How long a broken pipe waits for the process's exit status."""


class StdioLink(DuplexLink):
    """One process: `open` starts it, `close` stops it and its children."""

    def __init__(self, context: LinkContext) -> None:
        super().__init__(context)
        self._process: ServerProcess | None = None
        self._errors = context.errors.of_one()
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """Process id, 0 before `open`."""
        return self._process.pid if self._process is not None else 0

    @property
    def owner(self) -> str:
        """The pool's key of whose session it is."""
        return self._context.owner

    @property
    def process(self) -> ServerProcess | None:
        """The process; None before `open`."""
        return self._process

    async def open(self) -> None:
        """Start the process.

        Raises:
            UpstreamUnavailable: it cannot be started.
        """
        try:
            self._process = await ServerProcess.start(
                self.spec,
                self.received,
                self._lost_line,
                self.died,
                self._errors,
                self.meter,
                self.wait_s,
            )
        except OSError as error:
            self._death = f"it cannot be started: {error}"
            raise self.unavailable(self._death) from None

    async def close(self) -> None:
        """Stop the process and everything that it started."""
        if self._closing:
            return
        self._closing = True
        self.fail_all(self.unavailable(self._death or "the session is closed"))
        try:
            await self.end_tasks()
        finally:
            if self._process is not None:
                try:
                    await self._process.stop()
                finally:
                    self._process.kill()

    def unreadable(self, data: bytes | bytearray) -> None:
        """Keep a line of text (many programs log to standard output) for error messages; fail the
        call that a malformed answer belongs to.
        """
        self._errors.add(bytes(data[:_WORDS_BYTES]))
        if (request_id := answered(data)) in self.requests.pending:
            self._lost_line(request_id, _NO_JSON)

    def died(self, reason: str) -> None:
        """As `DuplexLink.died`; calls that found the pipe broken get the reason."""
        super().died(reason)
        self._ended.set()

    async def _write(self, data: bytes) -> None:
        process = self._process
        if process is None or self._death is not None:
            raise self.unavailable(self._death or "its process is not running")
        try:
            await process.write(data)
        except (BrokenPipeError, ConnectionResetError, RuntimeError):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DEATH_S):
                    await self._ended.wait()
            raise self.unavailable(self._death or "its process is gone") from None

    def _give_up(self, source: Lines) -> None:
        source.give_up()

    def _lost_line(self, request_id: int | None, reason: str) -> None:
        pending = self.requests.pending.get(request_id) if request_id is not None else None
        if pending is None:
            calls = [p for p in self.requests.pending.values() if p.call.method != LISTEN]
            pending = calls[0] if len(calls) == 1 else None
        if pending is not None:
            pending.put(self.unavailable(reason))
