"""Signals of `armory serve`, from its first moment to its last.

Owns: noting them before there is an event loop, taking them in it, and giving up a start that is to
end. Never imports a room but `tasks`, nor what a gateway is made of until one was loaded.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable
from typing import TypeVar

from armory.tasks import start
from armory.tasks import stop as end

_T = TypeVar("_T")
_INTERRUPTED = 130


class Signals:
    """Signals that this process has received since this was made, in its main thread.

    By default SIGHUP would end a process that is still starting.

    Attributes:
        stop: set when it is to end.
        reload: set when it is to read its configuration again.
    """

    def __init__(self) -> None:
        self.stop, self.reload = asyncio.Event(), asyncio.Event()
        signal.signal(signal.SIGHUP, self._reload)

    def _reload(self, _number: int, _frame: object) -> None:
        self.reload.set()

    def take(self) -> None:
        """Handle signals in the running event loop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        loop.add_signal_handler(signal.SIGHUP, self.reload.set)

    def _interrupted(self) -> None:
        if self.stop.is_set():  # asked twice: do not wait for anything
            from armory.upstreams.transports.process import kill_every  # loaded with the gateway

            kill_every()
            os._exit(_INTERRUPTED)
        self.stop.set()

    async def unless_stopped(self, work: Awaitable[_T]) -> _T | None:
        """The result of `work`; None: it was cancelled because the process is to stop."""
        task = asyncio.current_task()
        assert task is not None
        watching = start(self.stop.wait(), "wait for a signal")
        given_up = False

        def give_up(_: object) -> None:
            nonlocal given_up
            given_up = task.cancel()

        watching.add_done_callback(give_up)
        try:
            return await work
        except asyncio.CancelledError:
            if not given_up or task.cancelling() > 1:
                raise
            return None
        finally:
            watching.remove_done_callback(give_up)
            if given_up:
                task.uncancel()
            await end(watching)
