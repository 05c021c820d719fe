"""Setting up the log only when something is logged: most commands log nothing.

Owns: `log_later`. Never imports structlog itself.
"""

from __future__ import annotations

import logging

from armory.logger import LEVELS, before_first, set_up
from armory.observability.settings import LogSettings


def log_later(settings: LogSettings) -> None:
    """Like `configure_logging`, but only before the first event of Armory or of a library.

    Args:
        settings: what is written, and how.
    """

    def configure() -> None:
        from armory.observability.logging import configure_logging

        configure_logging(settings)

    before_first(configure, LEVELS[settings.log_level])
    root = logging.getLogger()
    root.handlers[:] = [_First()]
    root.setLevel(logging.WARNING)


class _First(logging.Handler):
    """Receives the first record of a library, and passes it to the handler that is set up then."""

    def emit(self, record: logging.LogRecord) -> None:
        set_up()
        logging.getLogger().handle(record)
