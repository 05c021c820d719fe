"""What commands print: answers on standard output, everything else on standard error.

Owns: consoles, JSON output and progress. Never imports a room.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn


def out() -> Console:
    """Standard output, for answers; wide where nobody looks at it, so that nothing is cut."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def err() -> Console:
    """Standard error, for progress and problems."""
    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def say_error(message: str) -> None:
    """A problem, on standard error."""
    err().print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)


def say_failure(told: Mapping[str, Any], *, as_json: bool) -> None:
    """How a command ended that did not do what it was asked for.

    With `--json` it is the answer, on standard output, so that a program finds it where it looks.

    Args:
        told: `code`, `message`, `exit_code`, and what else is known; the message is for people.
        as_json: whether the command was called with `--json`.
    """
    if as_json:
        print_json({"error": dict(told)})
    else:
        say_error(told["message"])


def say_notice(message: str) -> None:
    """Something worth knowing, on standard error."""
    err().print(f"[yellow]note:[/] {escape(message)}", soft_wrap=True)


class Waiting:
    """Progress of connecting and of first indexing, shown on a terminal only."""

    def __init__(self, progress: Progress | None, text: str) -> None:
        self._progress = progress
        self._text = text
        self._task = progress.add_task(text, total=None) if progress is not None else None

    def indexed(self, done: int, total: int) -> None:
        """So many of so many texts are embedded."""
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task, description="embedding tools", completed=done, total=total
            )

    def say(self, text: str) -> None:
        """Another phase."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)


@contextmanager
def waiting(text: str) -> Generator[Waiting]:
    """Show that something goes on, on standard error."""
    console = err()
    if not console.is_terminal:
        yield Waiting(None, text)
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    ) as progress:
        yield Waiting(progress, text)
