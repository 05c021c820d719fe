"""The interface to the configuration file, implemented by the runtime.

Owns: the seam, and the errors that pass over it. Never opens a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from armory.errors import ConfigError

Problems = Sequence[Mapping[str, Any]]
"""Problems: each with `path`, `line` and `message`."""


class Stale(ConfigError):
    """The file has changed since the caller read it."""


class NotWritable(ConfigError):
    """The file cannot be changed, or this gateway does not allow it."""


class Refused(ConfigError):
    """The new text is not a valid configuration; `found` says why."""

    def __init__(self, found: Problems) -> None:
        super().__init__("the configuration does not hold; nothing was written")
        self.found = found


class ConfigurationFile(Protocol):
    """The file that the gateway was started from (`runtime.editing.editor.Editor`)."""

    async def show(self) -> Mapping[str, Any]:
        """As `ConfigurationAnswer`; raises `ConfigError` where there is no file."""
        ...

    async def check(self, text: str, tag: str, effects: bool) -> Mapping[str, Any]:
        """As `CheckAnswer`; raises `Stale`."""
        ...

    async def save(self, text: str, tag: str) -> Mapping[str, Any]:
        """As `SaveAnswer`; raises `Stale`, `NotWritable` and `Refused`."""
        ...

    async def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the file."""
        ...
