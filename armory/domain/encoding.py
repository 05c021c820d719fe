"""How bytes are written as text, and text as bytes.

Owns: base64url (RFC 4648, 5) without padding, both ways, and which text can be UTF-8. Never imports
anything but the standard library.
"""

from __future__ import annotations

import base64
import binascii


def encoded(data: bytes) -> str:
    """Bytes as characters that a URL may hold."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(said: str) -> bytes | None:
    """The bytes again; None for what `encoded` never gives: nothing is written in two ways."""
    try:
        data = base64.b64decode(said + "=" * (-len(said) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if encoded(data) == said else None


def is_encodable(text: str) -> bool:
    """Whether it can be written as UTF-8, having no lone surrogate: JSON may have half a character
    as an escape, and `surrogateescape` makes one of each byte that is no UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
