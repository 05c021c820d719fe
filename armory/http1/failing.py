"""The exceptions that a failed exchange raises, with either HTTP client.

Owns: the errors to catch. aiohttp's client serves proxies and authorization servers alone, and is
imported there: a command that needs neither would spend a third of its CPU time on the import.
Never imports the protocol.
"""

from __future__ import annotations

import sys


def broken() -> tuple[type[Exception], ...]:
    """The exceptions to catch: those of the lean client, and those of aiohttp once that is
    imported.
    """
    error = getattr(sys.modules.get("aiohttp"), "ClientError", None)
    return (OSError,) if error is None else (error, OSError)
