"""PKCE (RFC 7636): a code is good for whoever asked for it.

Owns: the S256 challenge. Never imports a room.
"""

from __future__ import annotations

import hashlib

from armory.domain.base64url import encoded


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (4.2)."""
    return encoded(hashlib.sha256(verifier.encode()).digest())
