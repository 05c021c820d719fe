"""Encryption of texts that clients hold and only this gateway and its replicas can read.

Owns: the form of a seal: AES-256-GCM under keys derived with HKDF-SHA256, the form that the MCP
SDK's servers use. Never knows what is sealed.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from armory.domain.encoding import decoded, encoded
from armory.libraries import read_ahead

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET_BYTES = 32
_FORM = "v1."
_KEY_INFO = b"mcp/request-state/v1/aes-256-gcm"
_ID_INFO = b"mcp/request-state/v1/kid:"
_ID, _NONCE, _TAG = 4, 12, 16
_KEPT = 4
"""Latest secrets, the present one included, with which a seal may be opened."""


class BrokenSeal(Exception):
    """The text was not sealed with these keys, or was changed."""


class Seals:
    """Seals bytes and opens them again.

    Args:
        secrets: 32 bytes or more each; the first one seals, all of them open.

    Raises:
        ValueError: there is none, or one is too short.
    """

    def __init__(self, secrets: Sequence[bytes]) -> None:
        if not secrets or min(len(secret) for secret in secrets) < SECRET_BYTES:
            raise ValueError(f"seals need secrets of {SECRET_BYTES} bytes or more")
        self._secrets = tuple(secrets)

    def seal_with(self, secret: bytes) -> None:
        """Seal with another secret from now on; recent secrets still unseal."""
        before = (known for known in self._secrets if known != secret)
        self._secrets = (secret, *before)[:_KEPT]
        self.__dict__.pop("_keys", None)  # made again of these

    @cached_property
    def _keys(self) -> dict[bytes, AESGCM]:
        """The keys by their identifiers in seals, the current one first."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # only where one is sealed
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        keys: dict[bytes, AESGCM] = {}
        for secret in self._secrets:
            key = HKDF(algorithm=SHA256(), length=32, salt=None, info=_KEY_INFO).derive(secret)
            keys.setdefault(hashlib.sha256(_ID_INFO + key).digest()[:_ID], AESGCM(key))
        return keys

    def seal(self, data: bytes) -> str:
        """`data` sealed, as URL-safe text."""
        id, key = next(iter(self._keys.items()))
        nonce = os.urandom(_NONCE)
        return _FORM + encoded(id + nonce + key.encrypt(nonce, data, _FORM.encode() + id))

    def unseal(self, text: str) -> bytes:
        """The data in a sealed text.

        Raises:
            BrokenSeal: it was not sealed here, or is no longer as it was.
        """
        from cryptography.exceptions import InvalidTag

        raw = (decoded(text.removeprefix(_FORM)) if text.startswith(_FORM) else None) or b""
        if len(raw) < _ID + _NONCE + _TAG:
            raise BrokenSeal("malformed")
        id, nonce, sealed = raw[:_ID], raw[_ID : _ID + _NONCE], raw[_ID + _NONCE :]
        key = self._keys.get(id)
        if key is None:
            raise BrokenSeal("sealed with another key")
        try:
            return key.decrypt(nonce, sealed, _FORM.encode() + id)
        except InvalidTag:
            raise BrokenSeal("changed") from None


def load_ciphers() -> None:
    """Load the cryptography library (ten megabytes, not needed without questions); in a thread."""
    read_ahead("cryptography")
    for module in ("ciphers.aead", "hashes", "kdf.hkdf"):
        importlib.import_module(f"cryptography.hazmat.primitives.{module}")
