"""The interface to the gateway as a client of its issuer, implemented by the runtime.

Owns: the seam. Never asks anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class SignIn(Protocol):
    """The gateway as a client of its issuer (`web.connect.console_sign_in.ConsoleSignIn`)."""

    issuer: str

    async def begin(self, resource: str, redirect_uri: str) -> tuple[str, str]:
        """(the login URL, the sealed state that the tab keeps meanwhile)."""
        ...

    async def finish(self, kept: str, back: Mapping[str, str]) -> tuple[str, float | None] | None:
        """(access token, its expiry); None where `kept` was not sealed here, or is too old."""
        ...
