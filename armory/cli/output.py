"""What commands print: answers on standard output, everything else on standard error.

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
    """A sentence: wrapped at words where a person reads it, one line where a program does.

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


def counted(number: int, one: str, many: str = "") -> str:
    """`1 tool`, `2 tools`; `many` where that is not `one` with an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


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
    """A table; what does not fit goes on in the next line, nothing is cut.

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
    """Which upstreams could not be reached, on standard error; ends the command with 3 if any.

    Args:
        found: why, by upstream.
    """
    for key, why in found.items():
        say_error(f"upstream {key!r}: {why}")
    if found:
        sys.exit(3)


def say_failure(told: Mapping[str, Any], *, as_json: bool) -> None:
    """How a command ended that did not do what it was asked for.

    With `--json` it is the answer, on standard output, so that a program finds it where it looks;
    where that takes nothing, it is told like any other.

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
    """Let what standard output has not taken go nowhere, so that nothing fails at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def say_notice(message: str) -> None:
    """Something worth knowing, on standard error."""
    from rich.text import Text

    tell(Text.assemble(("note:", "yellow"), f" {message}"), console=err())


class Waiting:
    """What goes on and how much of it is done, shown on a terminal only."""

    def __init__(self, progress: Progress | None, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(text, total=None) if progress is not None else None

    def counting(self, text: str) -> Callable[[int, int], None]:
        """What to call with (done, total) of a phase.

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
        """Another phase, of which nothing is counted."""
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task(text, total=None)


@contextmanager
def waiting(text: str) -> Generator[Waiting]:
    """Show that something goes on, on standard error."""
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
