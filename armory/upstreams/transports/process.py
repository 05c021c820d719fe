"""The process of a stdio server: its own process group, a minimal environment, line by line.

Owns: starting, feeding and ending the process so that nothing of it stays behind, and what it
writes to standard error. Never imports the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import signal
from collections.abc import Callable
from typing import cast

from armory.http1.reading import Meter
from armory.logger import Logger
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.launchers import lacks_input
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.child import ChildTransport
from armory.upstreams.transports.environment import inherited, told_by_launcher
from armory.upstreams.transports.lines import Lines
from armory.upstreams.transports.programs import program_of, refused

log = Logger(__name__)

_STDERR_LINE = 2_000
_STDERR_LINES = 200
_STDERR_WINDOW_S = 60.0
_MUTED_S = 0.05
"""Pause between two reads of the standard error of a process that wrote too much there."""
LAST_WORDS_S = 1.0
"""How long exit status and the end of standard error are waited for once a process is ending, so
that one failure is worded the same whichever comes first.
"""
_EXIT_S = 1.0
_TERM_S = 2.0
_KILL_S = 5.0
_groups: set[int] = set()
"""The process groups of servers that run."""


def environment(spec: UpstreamSpec) -> dict[str, str]:
    """The environment of the process: what it inherits, and the configured variables."""
    found = {**inherited(os.environ, spec.inherit_env), **spec.env}
    return {**found, **told_by_launcher(spec.launcher, found)}


class ServerProcess(asyncio.SubprocessProtocol):
    """One running stdio server.

    Args:
        spec: the upstream.
        on_line: takes each line of standard output; may say for how many seconds no other is
            wanted.
        on_lost_line: takes the id in a line that was dropped, None where it could not be read, and
            why it was.
        on_end: told once, with the reason, when the process or its standard output is gone.
        errors: takes each line of its standard error, and of no other process's.
        meter: counts what a long line holds until it is complete; None: nothing is counted.
        wait_s: for how many seconds no other line is wanted; asked after such a pause.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        on_line: Callable[[bytes | bytearray], float | None],
        on_lost_line: Callable[[int | None, str], None],
        on_end: Callable[[str], None],
        errors: ErrorOutput,
        meter: Meter | None = None,
        wait_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._errors = errors
        self._server = spec.key
        self._lacks_input = lacks_input(spec.command or "", spec.args)
        read_on, limit = self._read_output, spec.message_bytes
        self._lines = Lines(spec.key, limit, on_line, on_lost_line, read_on, meter, wait_s)
        self._on_end = on_end
        self._transport: ChildTransport | None = None
        self._stderr = b""
        self._stderr_left = 0
        self._stderr_since = float("-inf")
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self._gone = asyncio.Event()
        self._ended = False
        self.pid = 0

    @classmethod
    async def start(
        cls,
        spec: UpstreamSpec,
        on_line: Callable[[bytes | bytearray], float | None],
        on_lost_line: Callable[[int | None, str], None],
        on_end: Callable[[str], None],
        errors: ErrorOutput | None = None,
        meter: Meter | None = None,
        wait_s: Callable[[], float] = lambda: 0.0,
    ) -> ServerProcess:
        """Start `spec.command`.

        Raises:
            OSError: it cannot be started; the message says why.
        """
        env = environment(spec)
        if spec.cwd is not None and not os.path.isdir(spec.cwd):  # noqa: ASYNC240 - one stat
            raise FileNotFoundError(f"working directory {spec.cwd!r} does not exist")
        command = spec.command or ""
        program = program_of(command, env.get("PATH"), spec.cwd)
        kept = ErrorOutput() if errors is None else errors
        self = cls(spec, on_line, on_lost_line, on_end, kept, meter, wait_s)
        try:
            await ChildTransport.started(self, [program, *spec.args], env, spec.cwd)
        except OSError as error:
            raise refused(error, command) from None
        return self

    async def write(self, line: bytes) -> None:
        """Write one line (the line feed is added); waits while the process does not read.

        Raises:
            BrokenPipeError: the process is gone.
        """
        if not self._writable.is_set():
            await self._writable.wait()
        stdin = self._stdin()
        if stdin is None or stdin.is_closing() or self._ended:
            raise BrokenPipeError("standard input is closed")
        # Line breaks outside JSON strings are mere white space; inside, JSON escapes them.
        if b"\n" in line or b"\r" in line:
            line = line.replace(b"\n", b" ").replace(b"\r", b" ")
        stdin.write(line + b"\n")

    @property
    def last_words(self) -> str:
        """What it asks and waits for, else the last line that says something; "" before."""
        return self._errors.last(b"" if self._ended else self._stderr or self._lines.asked)

    def work_done(self) -> int:
        """A number that grows while the process or its children do anything."""
        return cpu_ticks(self.pid) + self._errors.count

    async def stop(self) -> None:
        """Close standard input, wait, terminate, wait, kill: the whole process group."""
        self._on_end = _ignore
        self._writable.set()
        transport = self._transport
        if transport is None:
            return
        stdin = self._stdin()
        if stdin is not None and not stdin.is_closing():
            stdin.close()
        try:
            if not await self._exits_within(_EXIT_S):
                self._signal(signal.SIGTERM)
                if not await self._exits_within(_TERM_S):
                    self._signal(signal.SIGKILL)
                    await self._exits_within(_KILL_S)
        finally:
            self._end_group()
            transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                await self._gone.wait()

    def kill(self) -> None:
        """Kill the process group at once."""
        if self._transport is not None and not self._gone.is_set():
            self._end_group()
            self._transport.close()

    async def _exits_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            return False
        return True

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return self._transport.get_pipe_transport(fd) if self._transport is not None else None

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._pipe(0))

    def _signal(self, number: signal.Signals) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _end_group(self) -> None:
        """Kill the rest of the process group; once only, since its number may be reused
        afterwards.
        """
        if self.pid in _groups:
            _groups.remove(self.pid)
            self._signal(signal.SIGKILL)

    def _read_output(self, on: bool) -> None:
        self._read_on(1, on=on)

    def _read_on_stderr(self) -> None:
        self._read_on(2, on=True)

    # --- asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process runs."""
        self._transport = cast("ChildTransport", transport)
        self.pid = self._transport.get_pid()
        _groups.add(self.pid)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Bytes came."""
        chunk = data.encode() if isinstance(data, str) else data
        if fd == 1:
            self._lines.take(chunk)
        else:
            self._complain(chunk)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """A pipe was closed from the other side."""
        if fd == 1:
            # The exit status, when there is one, explains more; it comes behind.
            loop = asyncio.get_running_loop()
            loop.call_later(LAST_WORDS_S, self._end, "it closed its standard output")
        elif fd == 0:
            self._writable.set()

    def pause_writing(self) -> None:
        """The pipe to the process is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The process reads again."""
        self._writable.set()

    def process_exited(self) -> None:
        """The process ended; its last output may still be under way."""
        self._exited.set()
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        """Process and pipes are gone; what it started and left behind goes, too."""
        self._end_group()
        self._exited.set()
        self._gone.set()
        self._end()
        # Nothing more comes: drop the references to listeners and transport.
        self._transport, self._on_end = None, _ignore
        del self._lines

    # ---

    def _exit_reason(self) -> str:
        code = self._transport.get_returncode() if self._transport is not None else None
        if code is None:
            reason = "its process ended"
        elif code < 0:
            name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
            reason = f"its process was killed by {name}"
        else:
            reason = f"its process exited with status {code}"
            if code == 0 and self._lacks_input:
                reason += ", as its container got no input: add -i to its arguments"
        said = self._errors.telling()
        if said:
            return f"{reason}; it said: {said}"
        return f"{reason} and said nothing; run its command by hand" if (code or 0) > 0 else reason

    def _end(self, reason: str = "") -> None:
        if not self._ended:
            self._ended = True
            self._lines.ended()
            self._writable.set()
            if self._stderr:
                self._complain(b"\n")  # a last line may lack its line feed
            self._on_end(self._exit_reason() if self._exited.is_set() else reason)

    def _read_on(self, fd: int, *, on: bool) -> None:
        """Have a pipe of the process read, or let it fill."""
        # uvloop's transports derive from no class that could be asked for
        pipe = cast("asyncio.ReadTransport | None", self._pipe(fd))
        if pipe is not None and not pipe.is_closing():
            if on:
                pipe.resume_reading()
            else:
                pipe.pause_reading()

    def _complain(self, chunk: bytes) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._stderr_since > _STDERR_WINDOW_S:
            self._stderr_since, self._stderr_left = loop.time(), _STDERR_LINES
        if not self._stderr_left:  # of what is not logged only the end is kept
            chunk = chunk[-8 * _STDERR_LINE :]
            self._read_on(2, on=False)
            loop.call_later(_MUTED_S, self._read_on_stderr)
        *lines, rest = (self._stderr + chunk).split(b"\n")
        self._stderr = rest[-_STDERR_LINE:]
        lines[_STDERR_LINES:-_STDERR_LINES] = []  # thousands of short ones take milliseconds
        for line in lines:
            text = self._errors.add(line)
            if text and self._stderr_left > 0:
                self._stderr_left -= 1
                log.debug("upstream_stderr", upstream=self._server, line=text)
                if self._stderr_left == 0:
                    log.debug("upstream_stderr_muted", upstream=self._server, after=_STDERR_LINES)


def kill_every() -> None:
    """Kill all running servers; for a process that exits without waiting."""
    for group in tuple(_groups):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def cpu_ticks(group: int) -> int:
    """CPU time of a process group, in clock ticks; 0 where the system does not tell."""
    ticks = 0
    for path in glob.iglob("/proc/[0-9]*/stat"):
        try:
            with open(path, "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks


def _ignore(_reason: str) -> None:
    return None
