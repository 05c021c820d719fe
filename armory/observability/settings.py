"""The settings of logs and of the latest calls, as plain values.

Owns: `LogSettings`, `ActivitySettings` and their defaults. Never imports anything else.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, TextIO

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of the log.

    Attributes:
        log_level: least important events that are written.
        log_format: `auto` is `console` on a terminal and `json` otherwise.
    """

    log_level: LogLevel = "info"
    log_format: LogFormat = "auto"


@dataclass(frozen=True, slots=True)
class ActivitySettings:
    """What is kept of the latest calls, in memory.

    Attributes:
        arguments: whether their arguments are.
        results: whether their results are.
    """

    arguments: bool = False
    results: bool = False


def logs_json(settings: LogSettings, stream: TextIO | None = None) -> bool:
    """Whether each line of the log is a JSON object."""
    chosen = settings.log_format
    return chosen == "json" or (chosen == "auto" and not (stream or sys.stderr).isatty())
