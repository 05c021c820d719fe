"""MCP over stdin and stdout, for clients that spawn the gateway.

Owns: lines in, lines out. Both eras, one client, one principal.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from concurrent.futures import Future
from queue import SimpleQueue
from typing import BinaryIO

from armory.domain.principal import ANONYMOUS, Principal
from armory.gateway.endpoint import ALL
from armory.gateway.gateway import Gateway
from armory.logger import Logger
from armory.observability.standard_error import write_all
from armory.protocol import codes
from armory.protocol.jsonrpc import Part
from armory.tasks import spawn, start
from armory.threads import unattended
from armory.wire.caller import Caller
from armory.wire.duplex.connection import Duplex
from armory.wire.interaction.interactions import Interactions
from armory.wire.messages import Data
from armory.wire.observed import Observers, dispatcher_of
from armory.wire.sessions.batches import Batches
from armory.wire.sessions.registry import Sessions
from armory.wire.settings import StdioSettings
from armory.wire.streams import EventStream

_log = Logger(__name__)
_END_S = 2.0
"""How long the client may take at the end to read what was answered."""
_AT_ONCE = 1 << 16
"""Bytes read at a time."""


async def serve_stdio(
    gateway: Gateway,
    principal: Principal = ANONYMOUS,
    *,
    settings: StdioSettings | None = None,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    observers: Observers | None = None,
) -> None:
    """Serve one client until its input ends; then requests in flight may finish.

    Args:
        gateway: the request path.
        principal: who the client is.
        settings: limits and times.
        stdin: a binary pipe or file; the process's own by default.
        stdout: likewise.
        observers: who watches what the client asks; None: nobody.
    """
    settings = settings or StdioSettings()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=settings.line_bytes, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader)
    source = _watchable(stdin or sys.stdin.buffer)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, source)
    out = EventStream("stdio", keep_bytes=0)
    interactions = Interactions(ttl_s=settings.parked_timeout_s)
    ended = observers.session_ended("pipe") if observers else None
    sessions = Sessions(gateway, capacity=1, on_ended=ended)
    dispatcher = dispatcher_of(gateway, interactions, observers)
    caller = Caller(principal, ALL)
    batches = Batches(settings.batch_items, settings.batch_answer_bytes)
    depth = settings.json_depth
    duplex = Duplex(dispatcher, sessions, caller, out, batches, json_depth=depth)
    sink = stdout or sys.stdout.buffer
    writer = spawn(_write_out(out, sink), "standard output")
    try:
        await _read_in(reader, duplex, out, writer, settings.line_bytes)
        if not writer.done() and _read_from(sink):
            await duplex.drain(settings.drain_timeout_s)
            duplex.run_out()
            await duplex.drain(_END_S)
    finally:
        transport.close()
        await interactions.close()
        await duplex.close()
        await asyncio.wait((writer,), timeout=_END_S)
        writer.cancel()


def _watchable(source: BinaryIO) -> BinaryIO:
    """A source that event loops can wait for: `source`, or a pipe that a thread fills from it.
    Files and `/dev/null` are always ready, which epoll refuses and uvloop does not survive.
    """
    mode = os.fstat(source.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or source.isatty():
        return source
    reading, writing = os.pipe()
    unattended(lambda: _pump(source, writing), "standard input")
    return os.fdopen(reading, "rb", 0)


def _read_from(sink: BinaryIO) -> bool:
    """Whether anybody can read the output: nobody can once the client was killed."""
    poll = select.poll()
    poll.register(sink, 0)
    return not any(found & (select.POLLERR | select.POLLHUP) for _, found in poll.poll(0))


def _pump(source: BinaryIO, descriptor: int) -> None:
    with open(descriptor, "wb", 0) as pipe:
        try:
            while data := os.read(source.fileno(), _AT_ONCE):
                write_all(pipe, data)
        except BrokenPipeError:  # served no more
            return
        except OSError as error:
            _log.warning("stdin_unreadable", error=str(error))


async def _read_in(
    reader: asyncio.StreamReader,
    duplex: Duplex,
    out: EventStream,
    writer: asyncio.Task[None],
    limit: int,
) -> None:
    while not writer.done():
        await out.room()  # who reads no answers need not ask for more
        reading = start(_line(reader), "standard input")
        await asyncio.wait((reading, writer), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            return
        try:
            line = reading.result()
        finally:
            del reading  # whose error holds this frame by its trace
        if line is None:
            await duplex.refuse(codes.INVALID_REQUEST, f"the line is longer than {limit:,} bytes")
        elif not line:
            return
        elif line.strip():
            await duplex.take(line)


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; empty at the end of input, None for one that was too long and skipped."""
    skipped = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            return end.partial if not skipped else b""
        except asyncio.LimitOverrunError as over:
            await reader.readexactly(max(1, over.consumed))
            skipped = True
            continue
        return None if skipped else line


async def _write_out(out: EventStream, sink: BinaryIO) -> None:
    reader = out.attach()
    writer = _LineWriter(sink.fileno())
    try:
        while True:
            found = await out.next(reader, 3_600.0)
            if found is not None:
                await writer.line(found[1])
            found = None  # nothing of it is held while the next is waited for
    except EOFError:
        return
    except OSError as error:
        _log.info("stdout_closed", error=str(error))
    finally:
        writer.end()
        out.detach(reader)


class _LineWriter:
    """Writes lines in a daemon thread, so that a client that does not read cannot stop the process
    from exiting.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)  # its own: the number may be another file's by then
        self._lines: SimpleQueue[tuple[tuple[Part, ...], Future[None]] | None] = SimpleQueue()
        unattended(self._run, "standard output")

    async def line(self, data: Data) -> None:
        """Write a line; returns when the client's pipe has taken it.

        Raises:
            OSError: nobody reads any more.
        """
        written: Future[None] = Future()
        written.set_running_or_notify_cancel()
        parts = (data + b"\n",) if isinstance(data, bytes) else (*data.parts, b"\n")
        self._lines.put((parts, written))
        await asyncio.wrap_future(written)

    def end(self) -> None:
        """Stop writing."""
        self._lines.put(None)

    def _run(self) -> None:
        with open(self._descriptor, "wb", 0) as file:
            while (found := self._lines.get()) is not None:
                parts, written = found
                try:
                    for part in parts:
                        write_all(file, part)
                except OSError as error:
                    written.set_exception(error)
                else:
                    written.set_result(None)
                del found, parts, written  # nothing is held while the next is waited for
