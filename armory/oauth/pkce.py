"""PKCE (RFC 7636): a code is good for whoever asked for it.

Owns: the S256 challenge. Never imports a room.
"""

from __future__ import annotations

import base64
import hashlib


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
