"""Reads the configuration file of a running gateway again.

Owns: `Rereading`: one reading after the other, and whether the file is refused as it is now. Never
imports what is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from armory.config import Loaded, read_file
from armory.errors import ConfigError
from armory.logger import Logger
from armory.runtime.checking import checked
from armory.runtime.reloading import Reloaded
from armory.tasks import InTurn

_log = Logger(__name__)


class Reload(Protocol):
    """`Runtime.reload`."""

    def __call__(self, loaded: Loaded, *, dry_run: bool = False) -> Awaitable[Reloaded]:
        """Apply a configuration, or only report its effects."""
        ...


def _as_it_is(loaded: Loaded) -> Loaded:
    return loaded


def _nobody(*_told: object) -> None:
    """Does nothing: the default of `on_reading` and `on_reloaded`."""


def _unexplained(_path: Path, _error: ConfigError) -> str:
    return "`armory validate` says why"


def _read(path: Path) -> Loaded:
    """Load the file; an empty one is refused, since it was lost or is being written.

    Raises:
        ConfigError: it cannot be read, does not hold, or holds nothing.
    """
    text = read_file(path)
    if not text.strip():
        raise ConfigError(
            f"{path} is empty; if no upstream is wanted any more, say so: `upstreams: {{}}`"
        )
    return checked(path, text)


class Rereading:
    """Reads the file again and applies it.

    Args:
        path: of the file; None: the gateway was not started from one.
        reload: puts in force what was read.

    Attributes:
        overridden: puts what the command line said into a configuration that was read.
        on_reading: called in a thread before the file is read to be put in force.
        on_reloaded: called after every reload, dry runs excepted.
        explained: the error of a refused file without its secrets, for people who may not know
            them; called in a thread.
        refused: why what the file holds was refused when it was read last, so that an earlier
            configuration is in force; empty: it was not.
    """

    overridden: Callable[[Loaded], Loaded] = staticmethod(_as_it_is)
    on_reading: Callable[[], None] = staticmethod(_nobody)
    on_reloaded: Callable[[Reloaded], None] = staticmethod(_nobody)
    explained: Callable[[Path, ConfigError], str] = staticmethod(_unexplained)

    def __init__(self, path: Path | None, reload: Reload) -> None:
        self.refused = ""
        self._path = path
        self._reload = reload
        self._turns = InTurn("reload")

    async def read(self, *, dry_run: bool = False) -> Reloaded:
        """Apply the file's current contents, or only report the effects.

        One after the other: of two concurrent ones, the one with the older text could finish last.

        Raises:
            ConfigError: there is no file, or it does not hold, or holds nothing; nothing has
                changed then.
        """
        path = self._path
        if path is None:
            message = "this gateway was not started from a file; there is nothing to read"
            raise ConfigError(message)

        async def work() -> Reloaded:
            if not dry_run:
                await asyncio.to_thread(self.on_reading)
            loaded = await asyncio.to_thread(_read, path)
            return await self._reload(self.overridden(loaded), dry_run=dry_run)

        async def watched() -> Reloaded:
            try:
                report = await work()
            except ConfigError as error:
                why = await asyncio.to_thread(self.explained, path, error)
                self.refused = f"{path} is refused, an earlier one is in force: {why}"
                raise
            except Exception as error:
                kind = type(error).__name__
                self.refused = f"{path} could not be put in force ({kind}); the log says more"
                raise
            if self.refused:
                _log.info("configuration_holds_again")
            self.refused = ""
            return report

        return await self._turns.do(work if dry_run else watched)

    async def stop(self) -> None:
        """Cancel what is in progress."""
        await self._turns.stop()
