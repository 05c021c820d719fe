"""An event loop in its own thread, for callers that have none or must not block their own.

Owns: `LoopThread`. Never imports a room.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """An event loop in a daemon thread, which starts at once; call `end` to stop it.

    Args:
        name: the thread's, for debuggers.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether the caller is in this thread, where waiting for other work of the thread would
        deadlock.
        """
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Schedule `work` there; from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` there and wait for its result; from any other thread."""
        return self.submit(work).result()

    def end(self, timeout_s: float) -> None:
        """Cancel what still runs there, and wait until the work and the thread have ended.

        Args:
            timeout_s: so long the wait is at most.
        """
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)

    def end_after(self, work: Coroutine[Any, Any, object]) -> None:
        """Run `work` there, then stop the thread. Waits for neither, so that finalizers may call
        it.
        """
        stop = self._loop.stop  # asked for from any thread: from this one where it is done by now
        self.submit(work).add_done_callback(lambda _: self._loop.call_soon_threadsafe(stop))

    def _serve(self) -> None:
        # Its end gives every task its own: one that is dropped half-way leaves connections open.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
