"""PKCE (RFC 7636): only the client that requested a code can redeem it.

Owns: the S256 challenge, made and checked. Never imports a room.
"""

from __future__ import annotations

import hashlib
import hmac

from armory.domain.encoding import encoded


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (4.2)."""
    return encoded(hashlib.sha256(verifier.encode()).digest())


def verifies(verifier: str, challenge: str) -> bool:
    """Whether a verifier (4.1) matches its S256 challenge."""
    if not (43 <= len(verifier) <= 128 and verifier.isascii()):
        return False
    return hmac.compare_digest(challenge, challenge_of(verifier))
