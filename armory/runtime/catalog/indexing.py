"""Indexes the tools of the newest snapshot while it is already being served.

Owns: the task that does so, and when a list gives way to a newer one. Never imports a retriever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError
from armory.logger import Logger
from armory.threads import SWITCH_INTERVAL

if TYPE_CHECKING:
    from armory.accounts.registered_tools import Searchable

_log = Logger(__name__)
TURN_S, MOST_TURN_S = 10.0, 320.0
"""How long a list is embedded before it gives way to a newer one, whose tools are found by words
until then. The time doubles each time: what gives way begins again with all but the embedding.
"""


class IndexUpdater:
    """Passes lists of tools to the retriever, one after the other; of several pending ones only the
    newest.

    Args:
        retriever: None: nothing is searched.
        on_late: called when tools are searchable that `update` no longer waited for.
    """

    def __init__(self, retriever: Searchable | None, on_late: Callable[[], None]) -> None:
        self._retriever = retriever
        self._on_late = on_late
        self._newest: Sequence[ToolRecord] | None = None
        self._wanted = asyncio.Event()
        self._indexed = asyncio.Event()
        self._late = False
        self._turn_s = TURN_S

    @property
    def behind(self) -> bool:
        """Whether the newest list is not searchable yet."""
        return self._retriever is not None and not self._indexed.is_set()

    @property
    def pending(self) -> int:
        """The number of tools in the newest list while they are being indexed; 0: all are
        searchable.
        """
        return len(self._newest or ()) if self.behind else 0

    async def done(self) -> None:
        """Returns when the newest list is searchable, or failed to be."""
        if self._retriever is not None and self._newest is not None:
            await self._indexed.wait()

    async def update(self, tools: Sequence[ToolRecord], within_s: float) -> None:
        """Index exactly these tools; waits at most so long for it."""
        if self._retriever is None:
            return
        self._newest = tools
        self._indexed.clear()
        self._wanted.set()
        try:
            async with asyncio.timeout(within_s):
                await self._indexed.wait()
        except TimeoutError:
            self._late = True
            _log.info("indexing_goes_on", tools=len(tools))

    async def run(self) -> None:
        """Until cancelled: index the newest list whenever there is one."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            tools = self._newest
            if self._retriever is None or tools is None:
                continue
            started = time.monotonic()
            try:
                with SWITCH_INTERVAL.short():
                    outdated = partial(self._outdated, len(tools), started)
                    await self._retriever.index(tools, outdated)
            except ArmoryError as error:
                _log.error("indexing_failed", error=error.message)
            except Exception:  # noqa: BLE001 - the next list gets its turn
                _log.exception("indexing_failed")
            else:
                self._say_complete(len(tools), time.monotonic() - started)
            if not self._wanted.is_set():
                self._turn_s = TURN_S
                self._indexed.set()

    def _outdated(self, tools: int, started: float) -> bool:
        """Whether indexing a list should be abandoned for a newer one: at once for a much shorter
        one, since going on would hold memory and time, and for any other after a turn, since new
        tools are not found before.

        Turns grow: one upstream that changes constantly must not keep the others' tools from ever
        being embedded.
        """
        newer = self._newest
        if newer is None or not self._wanted.is_set():
            return False
        if 2 * len(newer) < tools:
            return True
        if time.monotonic() - started < self._turn_s:
            return False
        self._turn_s = min(2 * self._turn_s, MOST_TURN_S)
        return True

    def _say_complete(self, tools: int, took_s: float) -> None:
        """Log the end of indexing where its slow progress was logged."""
        if self._late and not self._wanted.is_set():
            self._late = False
            self._on_late()
            _log.info("indexing_complete", tools=tools, took_s=round(took_s, 1))
