"""Loggers for modules. structlog is loaded only when the first event is logged.

Owns: `Logger`, what is done before that event, and how many lines anybody can cause. structlog
brings rich, Pygments and attrs, a third of what a command loads that has nothing to log. Never
imports a room.

Where nobody set structlog up, as in a program that uses Armory as a library, warnings go to
standard error: standard output is the program's own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
"""As in the standard library."""


LIMITED_LINES, LIMITED_S = 20, 60.0
"""Most lines, in so many seconds, of an event that any request can cause."""


class _First:
    """The set-up that runs before the first event, and the level below which events are ignored."""

    def __init__(self) -> None:
        self.action: Callable[[], None] | None = None
        self.least = 0
        self.lock = threading.RLock()


class LineLimit:
    """The rate of one event's lines: how many were logged lately, and how many left out.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = float("-inf")
        self._lines = 0
        self._left_out = 0

    def left_out_before(self) -> int | None:
        """How many lines were left out before this one; None: this one is as well."""
        now = self._clock()
        if now - self._since >= LIMITED_S:
            self._since, self._lines = now, 0
        if self._lines == LIMITED_LINES:
            self._left_out += 1
            return None
        self._lines += 1
        before, self._left_out = self._left_out, 0
        return before


_first = _First()
_limits: dict[str, LineLimit] = {}


def before_first(action: Callable[[], None] | None, least: int = 0) -> None:
    """Register a function that is called before the first event is logged.

    Args:
        action: sets structlog up; None: nothing is left to do.
        least: level below which no event counts as one, now and afterwards.
    """
    _first.action, _first.least = action, least
    _limits.clear()


def set_up() -> None:
    """Run that function now, unless it has run already."""
    if _first.action is None:
        return
    with _first.lock:  # whoever logs meanwhile waits
        if (action := _first.action) is not None:
            action()
            _first.action = None


class Logger:
    """Logs events of one module: a name for each, and fields.

    Args:
        name: of the module.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: Any) -> None:
        """Something that only whoever looks for a cause wants to know."""
        self._log("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Something that happened."""
        self._log("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something that somebody should look at."""
        self._log("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something that did not work."""
        self._log("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """As `error`, with the exception that is being handled."""
        self._log("error", event, {"exc_info": True, **fields})

    def rate_limited(
        self, level: Literal["info", "warning", "error"], event: str, **fields: Any
    ) -> None:
        """As the method called `level`, for events that any request can cause: beyond
        `LIMITED_LINES` a minute lines are left out, and the next one says how many.
        """
        before = _limits.setdefault(event, LineLimit()).left_out_before()
        if before is not None:
            self._log(level, event, {**fields, "left_out": before} if before else fields)

    def _log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < _first.least:
            return
        set_up()
        if "structlog" not in sys.modules and LEVELS[level] < LEVELS["warning"]:
            return  # nobody set it up
        import structlog

        logger = structlog.get_logger(self._name)
        if not structlog.is_configured():
            if LEVELS[level] < LEVELS["warning"]:
                return
            logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
        getattr(logger, level)(event, **fields)
