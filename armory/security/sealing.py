"""Encryption of data that must stay secret even if the database or a cookie is stolen.

Owns: authenticated encryption (AES-256-GCM) under keys that rotate. Never stores anything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from armory.errors import ConfigError

_NONCE = 12
_MIN_CHARS = 16


class Seal:
    """Encrypts and decrypts bytes as text.

    Args:
        secrets: the first one seals, all of them open; texts of 16 characters or more.

    Raises:
        ConfigError: none is given, or one is too short to be a secret.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        if not secrets or any(len(secret) < _MIN_CHARS for secret in secrets):
            raise ConfigError(
                f"a key has at least {_MIN_CHARS} characters; make one with: python -c "
                '"import secrets; print(secrets.token_urlsafe(32))"',
                path="security.encryption_key",
            )
        self._keys = [AESGCM(hashlib.sha256(secret.encode()).digest()) for secret in secrets]

    def seal(self, data: bytes, purpose: str) -> bytes:
        """Encrypt; only `open` with the same purpose can decrypt it."""
        nonce = os.urandom(_NONCE)
        return nonce + self._keys[0].encrypt(nonce, data, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes | None:
        """Decrypt; None if it was sealed for another purpose or with an unknown key."""
        for key in self._keys:
            opened = _opened(key, sealed, purpose)
            if opened is not None:
                return opened
        return None

    def is_newest(self, sealed: bytes, purpose: str) -> bool:
        """Whether it was sealed with the newest key."""
        return _opened(self._keys[0], sealed, purpose) is not None


def _opened(key: AESGCM, sealed: bytes, purpose: str) -> bytes | None:
    try:
        return key.decrypt(sealed[:_NONCE], sealed[_NONCE:], purpose.encode())
    except (InvalidTag, ValueError):
        return None
