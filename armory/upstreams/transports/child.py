"""A child process and its three pipes, the same on every event loop.

Owns: `ChildTransport`, which starts a process by `subprocess`, connects its pipes to the loop and
notices its end. Subprocesses of the loop itself will not do on uvloop: it gives them sockets in
place of pipes (which `/dev/stdout` cannot open) and a second copy of each, so that a server which
closes its standard output goes unnoticed. Never imports a session.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

from armory.threads import default_slice


class ChildTransport(asyncio.SubprocessTransport):
    """A child process in a process session of its own; created by `started`.

    Args:
        protocol: gets the callbacks of `asyncio.SubprocessProtocol`; `connection_made` comes
            before the pipes are connected.
        process: the child, with three pipes.
    """

    def __init__(
        self, protocol: asyncio.SubprocessProtocol, process: subprocess.Popen[bytes]
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._process = process
        self._files: tuple[Any, ...] = (process.stdin, process.stdout, process.stderr)
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._lost: set[int] = set()
        self._exited = False
        self._closing = False

    @classmethod
    async def started(
        cls,
        protocol: asyncio.SubprocessProtocol,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
    ) -> ChildTransport:
        """Start `command`; returns once its pipes are connected.

        Raises:
            OSError: it cannot be started.
        """
        pipe = subprocess.PIPE
        with default_slice():
            process = subprocess.Popen(  # noqa: ASYNC220 - forks and waits for `exec`, as asyncio does
                command,
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        self = cls(protocol, process)
        protocol.connection_made(self)
        try:
            self._watch(asyncio.get_running_loop())
            await self._connect(asyncio.get_running_loop())
        except BaseException:
            self.close()
            raise
        return self

    def get_pid(self) -> int:
        """Its process id, which is also its process group's."""
        return self._process.pid

    def get_returncode(self) -> int | None:
        """Its exit status, negative for a signal; None: it is running."""
        return self._process.returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        """The transport of standard input (0), output (1) or error (2); None: not yet connected."""
        return self._pipes.get(fd)

    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def close(self) -> None:
        """Close its pipes, and kill it if it is still running."""
        if self._closing:
            return
        self._closing = True
        for fd, file in enumerate(self._files):
            if fd in self._pipes:
                self._pipes[fd].close()
            elif file is not None:
                file.close()
                self._lost.add(fd)
        if not self._exited:
            self._process.kill()
            # Somebody waits for it even where the loop ends first.
            threading.Thread(target=self._process.wait, daemon=True).start()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        if not isinstance(loop, asyncio.BaseEventLoop):
            self._files = tuple(_Descriptor(file) for file in self._files if file is not None)
        stdin, *outputs = self._files
        await loop.connect_write_pipe(lambda: _Pipe(self, 0), stdin)
        for fd, file in enumerate(outputs, 1):
            await loop.connect_read_pipe(lambda fd=fd: _Pipe(self, fd), file)

    # --- its end

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old one

            def wait() -> None:
                self._process.wait()
                loop.call_soon_threadsafe(self._has_exited)

            threading.Thread(target=wait, daemon=True).start()
            return

        def readable() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._process.wait()
            self._has_exited()

        loop.add_reader(descriptor, readable)

    def _has_exited(self) -> None:
        self._exited = True
        self._protocol.process_exited()
        self._ended()

    def _ended(self) -> None:
        """Report the end once the process has exited and nothing holds its pipes any more."""
        if self._exited and len(self._lost) == len(self._files):
            self._protocol.connection_lost(None)

    # --- its pipes

    def pipe_made(self, fd: int, transport: asyncio.BaseTransport) -> None:
        """A pipe is connected."""
        self._pipes[fd] = transport
        if self._closing:
            transport.close()

    def pipe_data(self, fd: int, data: bytes) -> None:
        """Bytes came."""
        self._protocol.pipe_data_received(fd, data)

    def pipe_full(self, *, full: bool) -> None:
        """Standard input accepts no more data, or accepts data again."""
        if full:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()

    def pipe_lost(self, fd: int, error: Exception | None) -> None:
        """A pipe is closed, by either side."""
        self._lost.add(fd)
        self._protocol.pipe_connection_lost(fd, error)
        self._ended()


class _Pipe(asyncio.Protocol):
    """The protocol of one pipe; forwards its events to the child's transport."""

    def __init__(self, child: ChildTransport, fd: int) -> None:
        self._child = child
        self._fd = fd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._child.pipe_made(self._fd, transport)

    def data_received(self, data: bytes) -> None:
        self._child.pipe_data(self._fd, data)

    def pause_writing(self) -> None:
        self._child.pipe_full(full=True)

    def resume_writing(self) -> None:
        self._child.pipe_full(full=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._child.pipe_lost(self._fd, exc)


class _Descriptor:
    """A file object that gives its descriptor away.

    uvloop closes a descriptor and then the file object that it came from, when another thread may
    already have opened a file with the same number.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._number = os.dup(file.fileno())
        file.close()
        self._given = False

    def fileno(self) -> int:
        self._given = True
        return self._number

    def close(self) -> None:
        if not self._given:
            self._given = True
            os.close(self._number)
