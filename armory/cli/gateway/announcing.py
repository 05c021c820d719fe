"""What `armory serve` reports about itself: sentences for people, or JSON log lines.

Owns: `Announcer`, the sentences, and how often progress is told. Never imports a room but
`observability`; what it speaks of it knows by its type alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armory.cli.output import err, print_json, say_error, say_notice
from armory.observability.redaction import redacted
from armory.observability.settings import LogSettings, logs_json

if TYPE_CHECKING:
    from armory.runtime.reloading import Reloaded
    from armory.web.app import Listening

PROGRESS_S = 15.0


class Announcer:
    """Reports events on standard error, whatever `log_level` is.

    Args:
        settings: whether the log is JSON; then this is, too, so that each line can be parsed.
    """

    def __init__(self, settings: LogSettings) -> None:
        self._json = logs_json(settings)

    def say(self, event: str, text: str, **fields: Any) -> None:
        """Report an event.

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
        """Report something that a person should look at."""
        if self._json:
            self._line("warning", event, text, fields)
        else:
            say_notice(text)

    def error(self, event: str, text: str) -> None:
        """Report a failure."""
        if self._json:
            self._line("error", event, text, {})
        else:
            say_error(text)

    def _line(self, level: str, event: str, text: str, fields: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {"message": redacted(text), **fields, "event": event, "level": level}
        sys.stderr.write(json.dumps({**line, "timestamp": at}, ensure_ascii=False) + "\n")
        sys.stderr.flush()


class Indexing:
    """Reports the progress of embedding tools, if it takes long.

    Args:
        announcer: where it is said.
        every_s: seconds between two lines; what ends earlier is not spoken of.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        announcer: Announcer,
        every_s: float = PROGRESS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._announcer = announcer
        self._every_s = every_s
        self._clock = clock
        self._said: float | None = None

    def shown(self, done: int, total: int) -> None:
        """`done` of `total` texts are embedded."""
        now = self._clock()
        if self._said is None:
            self._said = now
        if done < total and now - self._said >= self._every_s:
            self._said = now
            text = f"embedding tools, {done:,} of {total:,} texts"
            self._announcer.say("embedding_tools", text, done=done, total=total)
        elif done >= total:
            self._said = None


def say_listening(announcer: Announcer, as_json: bool, bound: Listening) -> None:
    """Report where it listens; as JSON on standard output for programs that start it."""
    url = f"{bound.url}/mcp"
    if as_json:
        address = {"url": url, "host": bound.host, "port": bound.port, "pid": os.getpid()}
        print_json(address)
    else:
        also = f" (bound to {bound.address}: every address)" if bound.everywhere else ""
        announcer.say("listening", f"listening on {url}{also}", url=url, pid=os.getpid())


def say_reloaded(path: Path | None, announcer: Announcer, report: Reloaded) -> None:
    """Report the effects of a reload."""
    if report.applied or report.needs_restart:
        applied = ", ".join(report.applied) or "nothing"
        announcer.say("reloaded", f"reloaded {path}: {applied}", applied=report.applied)
    if report.needs_restart:
        text = f"takes effect after a restart: {', '.join(report.needs_restart)}"
        announcer.note("needs_restart", text, keys=report.needs_restart)
