"""A rich console that shows texts literally.

Owns: `PlainConsole`. Imports rich.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from armory.cli.plain import plain


class PlainConsole(Console):
    """Applies styles only; control sequences inside texts are removed, and what cannot be seen is
    spelled out before lines are laid out, so that nothing is cut.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """As `Console.render_str`."""
        return self._plain(super().render_str(text, **options))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As `Console.render`."""
        if isinstance(renderable, Text):
            renderable = self._plain(renderable)
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(plain(text), style)

    def _plain(self, text: Text) -> Text:
        if text.plain.isascii():
            return text
        shown = text.blank_copy()
        for piece, style, _ in text.render(self):
            shown.append(plain(piece), style)
        return shown
