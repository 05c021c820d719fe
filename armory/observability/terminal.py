"""Log events as short lines for a terminal: time, level, event, fields.

Owns: `TerminalRenderer`. Never imports anything else of Armory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any

_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}
_LONGEST_VALUE = 160
_PLAIN = re.compile(r"[^\s\"'=]+")
_FIRST = ("upstream", "server", "error")
_LONG = frozenset({"stderr"})
"""Fields for the JSON log alone: `error` quotes the telling line, `armory logs` shows it all."""


class TerminalRenderer:
    """A structlog renderer: one line for each event, whatever its values contain.

    An exception is its last line, which says what happened; the JSON log has the rest.

    Args:
        colours: whether the terminal shows them.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
        """The line, without a line end."""
        level = str(event.pop("level", "info"))
        at = _time_of(str(event.pop("timestamp", "")))
        name = _one_line(str(event.pop("event", "")))
        raised = str(event.pop("exception", "")).strip().splitlines()
        if raised:
            event["raised"] = raised[-1]
        first = [key for key in _FIRST if key in event]
        keys = [*first, *(key for key in event if key not in first and key not in _LONG)]
        values = [f"{self._in('2', key)}={_shown(event[key])}" for key in keys]
        said = self._in(_COLOURS.get(level, "0"), f"{level:<7}")
        return " ".join([self._in("2", at), said, self._in("1", name), *values])

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text


def _time_of(stamp: str) -> str:
    """The time of day in the local time zone."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return stamp


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        text = json.dumps(value, ensure_ascii=False, default=str)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        text = ", ".join(str(entry) for entry in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    else:
        text = str(value)
    text = _one_line(text)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 1]}…"
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    """The text without line ends and other characters that move a terminal's cursor."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
