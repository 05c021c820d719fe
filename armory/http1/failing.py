"""What an exchange that fails raises, whichever client made it.

Owns: the errors to catch. aiohttp's client is for proxies and authorization servers alone, and is
loaded there: a command that needs neither would spend a third of its CPU on it. Never imports the
protocol.
"""

from __future__ import annotations

import sys


def broken() -> tuple[type[Exception], ...]:
    """For `except`: errors of the lean client, and of aiohttp once that is loaded."""
    error = getattr(sys.modules.get("aiohttp"), "ClientError", None)
    return (OSError,) if error is None else (error, OSError)
