"""A console that shows whatever it is given as text.

Owns: `PlainConsole`. Imports rich.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from armory.cli.plain import plain


class PlainConsole(Console):
    """Obeys styles alone: what stands in a text to steer a terminal is left out."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As `Console.render`."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(plain(text), style)
