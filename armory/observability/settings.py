"""What configuration says about logs, as plain values.

Owns: `LogSettings` and its defaults. Never imports anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how.

    Attributes:
        log_level: least important events that are written.
        log_format: `auto` is `console` on a terminal and `json` otherwise.
    """

    log_level: LogLevel = "info"
    log_format: LogFormat = "auto"
