"""Bytes as characters that a URL may hold (RFC 4648, 5), without padding.

Owns: both ways. Never imports anything but the standard library.
"""

from __future__ import annotations

import base64
import binascii


def encoded(data: bytes) -> str:
    """Bytes as characters of a URL."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(said: str) -> bytes | None:
    """The bytes again; None for what `encoded` never gives: nothing is written in two ways."""
    try:
        data = base64.b64decode(said + "=" * (-len(said) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if encoded(data) == said else None
