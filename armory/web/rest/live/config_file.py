"""What REST asks of the configuration file, handed over by the runtime.

Owns: the seam, and the errors that pass over it. Never opens a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from armory.errors import ConfigError

Found = Sequence[Mapping[str, Any]]
"""Problems: each with `path`, `line` and `message`."""


class Stale(ConfigError):
    """The file does not hold what the caller has seen of it."""


class NotWritable(ConfigError):
    """The file, or this gateway, takes no changes."""


class Refused(ConfigError):
    """What the file would hold does not hold. `found` says why."""

    def __init__(self, found: Found) -> None:
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
