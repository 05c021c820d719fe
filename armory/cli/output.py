"""Output of commands: results to standard output, everything else to standard error.

Owns: consoles, JSON output and progress. Imports rich where something is shown to a person. Never
imports a room.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from armory.cli.plain import plain_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

CONNECTING = "connecting to upstreams"
EMBEDDING = "embedding texts"
_WORD = re.compile(r"\S+")


def out() -> Console:
    """Standard output, for answers; wide where nobody looks at it, so that nothing is cut."""
    from armory.cli.printing import PlainConsole

    console = PlainConsole(highlight=False)
    return console if console.is_terminal else PlainConsole(highlight=False, width=200)


def err() -> Console:
    """Standard error, for progress and problems."""
    from armory.cli.printing import PlainConsole

    return PlainConsole(stderr=True, highlight=False)


def tell(text: str | Text, *, hang: int = 0, console: Console | None = None) -> None:
    """Print a sentence: wrapped for people, one line for programs.

    Args:
        text: as it is; or with styles.
        hang: so far further lines are indented.
        console: standard output when None.
    """
    from rich.text import Text

    console = console or out()
    shown = Text(text) if isinstance(text, str) else text
    if console.is_terminal:
        margin = Text("\n" + " " * hang)
        shown = margin.join(_wrapped(shown, console.width - hang))
    console.print(shown, soft_wrap=True)


def counted(number: int, one: str, many: str = "", width: int = 0) -> str:
    """`1 tool`, `2 tools`; `many` where that is not `one` with an s, `width` of the number."""
    return f"{number:{width}} {one if number == 1 else many or f'{one}s'}"


def _wrapped(text: Text, width: int) -> Generator[Text]:
    """Lines of whole words; a longer word, which may be a URL to copy, is left as it is."""
    from rich.cells import cell_len

    for line in text.split(allow_blank=True):
        plain, begin, cuts = line.plain, 0, list[int]()
        for word in list(_WORD.finditer(plain))[1:]:
            if cell_len(plain[begin : word.end()]) > width:
                begin = word.start()
                cuts.append(begin)
        for part in line.divide(cuts):
            part.rstrip()
            yield part


def columns(*names: str, whole: Collection[str] = ()) -> Table:
    """A table that wraps cells where they do not fit, and cuts nothing.

    Args:
        names: of its columns.
        whole: those that stay in one line as long as there is any room: identifiers to copy.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=name in whole, overflow="fold")
    return table


def print_json(value: Any) -> None:
    """One JSON value on standard output, at once: the command may go on for long."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # escapes mean the same
        text = json.dumps(value, indent=2)
    sys.stdout.write(plain_json(text) + "\n")
    sys.stdout.flush()


def say_error(message: str) -> None:
    """A problem, on standard error."""
    from rich.text import Text

    tell(Text.assemble(("error:", "bold red"), f" {message}"), console=err())


def say_unreached(found: Mapping[str, str]) -> None:
    """Print which upstreams could not be reached, to standard error; exits with 3 if there are any.

    Args:
        found: why, by upstream.
    """
    for key, why in found.items():
        say_error(f"upstream {key!r}: {why}")
    if found:
        sys.exit(3)


def say_failure(told: Mapping[str, Any], *, as_json: bool) -> None:
    """Report how a command failed.

    With `--json` it is the answer, on standard output, where a program looks for it; if that cannot
    be written to, it goes to standard error.

    Args:
        told: `code`, `message`, `exit_code`, and what else is known; the message is for people.
        as_json: whether the command was called with `--json`.
    """
    if as_json:
        try:
            print_json({"error": dict(told)})
            return
        except OSError:  # a full disk, or a pipe that nobody reads any more
            _drop_output()
    say_error(told["message"])


def _drop_output() -> None:
    """Discard what standard output has not taken, so that nothing fails at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def say_notice(message: str) -> None:
    """Something worth knowing, on standard error."""
    from rich.text import Text

    tell(Text.assemble(("note:", "yellow"), f" {message}"), console=err())


class Waiting:
    """The progress of the current phase, shown on a terminal only."""

    def __init__(self, progress: Progress | None, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(text, total=None) if progress is not None else None

    def counting(self, text: str) -> Callable[[int, int], None]:
        """Begin to count within the phase; returns what is called with (done, total).

        Args:
            text: what is done and counted, in the plural: `embedding texts`.
        """

        def counted(done: int, total: int) -> None:
            if self._progress is not None and self._task is not None:
                self._progress.update(
                    self._task,
                    description=f"{text} {done:,}/{total:,}",
                    completed=done,
                    total=total,
                )

        return counted

    def say(self, text: str) -> None:
        """Begin a phase without a count."""
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task(text, total=None)


@contextmanager
def waiting(text: str) -> Generator[Waiting]:
    """Show progress on standard error."""
    console = err()
    if not console.is_terminal:
        yield Waiting(None, text)
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        console=console,
        transient=True,
    ) as progress:
        yield Waiting(progress, text)
