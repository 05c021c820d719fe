"""Detects that the data folder or the database file were removed or replaced under the gateway.

Owns: `HomeWatch`. Never opens or makes a file, but has the note of the gateway left again.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from armory.logger import Logger
from armory.runtime.entry.local_access import Note
from armory.tasks import spawn, stop

_log = Logger(__name__)
_EVERY_S = 5.0


class HomeWatch:
    """Watches the folder. A process with open files does not notice that they were removed;
    everything that it writes afterwards is lost.

    Args:
        home: the folder behind `ARMORY_HOME`.
        database: the file of the database; None: it is no file.

    Attributes:
        problem: what is wrong, for people; empty: nothing is.
        note: of the gateway, for commands on this machine; None: it has none.
    """

    note: Note | None = None

    def __init__(self, home: Path, database: Path | None) -> None:
        self.problem = ""
        self._home = home
        self._database = database
        self._usable = False
        self._opened: tuple[int, int] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching."""
        self._task = spawn(self._run(), "data folder: watch")

    async def stop(self) -> None:
        """Stop watching."""
        await stop(self._task)

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Check once; the result is in `problem`."""
        before, self.problem = self.problem, await asyncio.to_thread(self._found)
        if self.problem and self.problem != before:
            _log.warning("data_folder_unusable", error=self.problem)
        elif before and not self.problem:
            _log.info("data_folder_back")
        if self.note is not None and not self.problem:
            await asyncio.to_thread(self.note.leave_again)

    def _found(self) -> str:
        folder = self._wrong_with_home()
        self._usable = self._usable or not folder
        if folder and self._usable:  # one that was never usable is meant to be so
            return folder
        return "" if self._database is None else self._wrong_with(self._database)

    def _wrong_with_home(self) -> str:
        if not os.path.isdir(self._home):  # `Path.is_dir` raises where it cannot be looked at
            return f"{self._home} is gone; what Armory keeps there is lost, start it again"
        if not os.access(self._home, os.W_OK | os.X_OK):
            return f"{self._home} cannot be written; nothing new is kept there"
        return ""

    def _wrong_with(self, file: Path) -> str:
        try:
            found = file.stat()
        except OSError:
            if self._opened is None:  # whoever opens it says why
                return ""
            return f"{file} is gone; what is written now is lost, start Armory again"
        if self._opened is None:
            self._opened = found.st_dev, found.st_ino
        if self._opened != (found.st_dev, found.st_ino):
            return f"{file} is another file than the one in use; start Armory again"
        return "" if os.access(file, os.W_OK) else f"{file} cannot be written"
