"""What `armory serve` says of itself: sentences for people, or lines of the log where it is JSON.

Owns: `Announcer`. Never imports a room but `observability`.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from armory.cli.output import err, say_error, say_notice
from armory.observability.redaction import redacted
from armory.observability.settings import LogSettings, logs_json


class Announcer:
    """Says what has happened on standard error, whatever `log_level` is.

    Args:
        settings: whether the log is JSON; then this is, too, so that each line can be parsed.
    """

    def __init__(self, settings: LogSettings) -> None:
        self._json = logs_json(settings)

    def say(self, event: str, text: str, **fields: Any) -> None:
        """Something that happened.

        Args:
            event: its name in a JSON log.
            text: the sentence for people; a JSON log has it as `message`.
            fields: what else is known, for a JSON log.
        """
        if self._json:
            self._line("info", event, f"armory: {text}", fields)
        else:
            err().print(f"armory: {text}", soft_wrap=True, markup=False)

    def note(self, event: str, text: str, **fields: Any) -> None:
        """Something that a person should look at."""
        if self._json:
            self._line("warning", event, text, fields)
        else:
            say_notice(text)

    def error(self, event: str, text: str) -> None:
        """Something that did not work."""
        if self._json:
            self._line("error", event, text, {})
        else:
            say_error(text)

    def _line(self, level: str, event: str, text: str, fields: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {"message": redacted(text), **fields, "event": event, "level": level}
        sys.stderr.write(json.dumps({**line, "timestamp": at}, ensure_ascii=False) + "\n")
        sys.stderr.flush()
