"""Encoding bytes as text.

Owns: base64url (RFC 4648, 5) without padding, both ways, which text can be UTF-8, and Unicode's
normal forms of foreign text. Never imports anything but the standard library.
"""

from __future__ import annotations

import base64
import binascii
import unicodedata
from collections.abc import Iterator
from typing import Literal

Form = Literal["NFC", "NFKC", "NFD", "NFKD"]
_PIECE_CHARS = 128


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


def normalized(form: Form, text: str) -> str:
    """A normal form of text that somebody else wrote, in linear time.

    `unicodedata.normalize` sorts combining characters in a row by insertion, with the interpreter
    held: seconds for 64,000 of them. Here no more than some hundred are sorted at once; only text
    that has more in a row comes out otherwise.
    """
    if len(text) <= _PIECE_CHARS or text.isascii():
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that can be normalized by themselves."""
    begin = 0
    while len(text) - begin > _PIECE_CHARS:
        most = begin + _PIECE_CHARS
        end = text.rfind(" ", begin + 1, most + 1)
        if end < 0:
            end = next((at for at in range(most, begin, -1) if _begins(text[at])), most)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _begins(char: str) -> bool:
    """Whether a character is neither sorted among those before it nor joined with them."""
    first = unicodedata.normalize("NFKD", char)[0]
    return unicodedata.category(first)[0] != "M" and not "\u1160" <= first <= "\u11ff"  # Hangul
