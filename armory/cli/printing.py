"""A rich console that shows texts literally.

Owns: `PlainConsole`. Imports rich.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from armory.cli.plain import plain


class PlainConsole(Console):
    """Applies styles only; control sequences inside texts are removed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As `Console.render`."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(plain(text), style)
