"""Encoding bytes as text.

Owns: base64url (RFC 4648, 5) without padding, both ways, and which text can be UTF-8. Never imports
anything but the standard library.
"""

from __future__ import annotations

import base64
import binascii


def encoded(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(said: str) -> bytes | None:
    """Decode what `encoded` returned; None for any other text, including non-canonical
    encodings.
    """
    try:
        data = base64.b64decode(said + "=" * (-len(said) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if encoded(data) == said else None


def is_encodable(text: str) -> bool:
    """Whether a text can be encoded as UTF-8, that is, has no lone surrogate. JSON escapes can
    contain one, and `surrogateescape` makes one for each invalid byte.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
