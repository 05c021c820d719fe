"""What REST asks of the gateway as a client of its issuer, handed over by the runtime.

Owns: the seam. Never asks anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class SignIn(Protocol):
    """The gateway as a client of its issuer (`web.connect.console_sign_in.ConsoleSignIn`)."""

    issuer: str

    async def begin(self, resource: str, redirect_uri: str) -> tuple[str, str]:
        """(where the person logs in, what the tab keeps meanwhile)."""
        ...

    async def finish(self, kept: str, back: Mapping[str, str]) -> tuple[str, float | None] | None:
        """(access token, when it expires); None where `kept` is none of ours, or too old."""
        ...
