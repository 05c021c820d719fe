"""The event loop that the gateway runs on, and how names are looked up on it.

Owns: `loop_factory`, `Lookups`. Never imports a room but `web`'s settings.

A lookup waits in C for as long as the system's resolver does: half a minute, where a name server
does not answer. asyncio does it in the threads that searches need, uvloop in four of its own that
are waited for at the end; a few names that hang would hold up all others, and the end.
"""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from armory.web.settings import EventLoop

_MOST = 128
"""Threads that look names up; more names wait."""
_IDLE_S = 5.0
"""How long an idle thread waits for the next name."""
Query = tuple[Any, ...]
Addresses = list[Any]


class Lookups:
    """Looks names up in daemon threads of its own, each name once at a time.

    Args:
        lookup: as `socket.getaddrinfo`.
        most: threads.
        idle_s: after so many seconds without work a thread ends.
    """

    def __init__(
        self, lookup: Callable[..., Addresses], most: int = _MOST, idle_s: float = _IDLE_S
    ) -> None:
        self._lookup = lookup
        self._most = most
        self._idle_s = idle_s
        self._running: dict[Query, Future[Addresses]] = {}
        self._asked: deque[Query] = deque()
        self._idle = 0
        self._threads = 0
        self._changed = threading.Condition()

    async def of(self, *query: Any) -> Addresses:
        """Resolve a name; concurrent callers with the same query share one lookup.

        Args:
            query: as of `socket.getaddrinfo`: host, port, family, type, proto, flags.

        Raises:
            OSError: the name is not known, or cannot be looked up.
        """
        return [*await asyncio.wrap_future(self._begun(query))]

    def _begun(self, query: Query) -> Future[Addresses]:
        with self._changed:
            found = self._running.get(query)
            if found is None:
                found = self._running[query] = Future()
                found.set_running_or_notify_cancel()  # whoever stops waiting ends it for nobody
                self._asked.append(query)
                if self._idle >= len(self._asked):
                    self._changed.notify()
                elif self._threads < self._most:
                    self._start()
            return found

    def _start(self) -> None:
        """Start one more thread. If the system refuses, the existing ones do the work.

        Raises:
            OSError: the system refuses, and there is no thread yet.
        """
        try:
            threading.Thread(target=self._run, name="armory-names", daemon=True).start()
        except RuntimeError as error:
            if not self._threads:
                del self._running[self._asked.pop()]
                raise OSError(errno.EAGAIN, f"no thread to look it up: {error}") from error
        else:
            self._threads += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                asked = self._changed.wait_for(lambda: self._asked, self._idle_s)
                self._idle -= 1
                if not asked:
                    self._threads -= 1
                    return
                query = self._asked.popleft()
            try:
                found, error = self._lookup(*query), None
            except Exception as failed:  # noqa: BLE001 told to whoever asked
                found, error = [], failed
            with self._changed:
                future = self._running.pop(query)
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(found)


_LOOKUPS = Lookups(socket.getaddrinfo)


class _Names:
    """An event loop's lookups of names."""

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Addresses:
        """As the loop's own. uvloop asks for what is an address already, each time it connects."""
        if isinstance(host, str) and (":" in host or host.replace(".", "").isdigit()):
            numeric = flags | socket.AI_NUMERICHOST
            return socket.getaddrinfo(host, port, family, type, proto, numeric)
        return await _LOOKUPS.of(host, port, family, type, proto, flags)


def loop_factory(wanted: EventLoop) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the event loop; asyncio's for `auto` where uvloop is not installed."""
    if wanted == "asyncio" or importlib.util.find_spec("uvloop") is None:
        kind: Any = asyncio.SelectorEventLoop
    else:
        import uvloop  # there is none for PyPy

        kind = uvloop.Loop
    return type("Loop", (_Names, kind), {})
