"""Encoding bytes as text.

Owns: base64url (RFC 4648, 5) without padding, both ways, which text can be UTF-8, and of foreign
text Unicode's normal forms and what cannot be seen in it. Never imports anything but the standard
library.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal

Form = Literal["NFC", "NFKC", "NFD", "NFKD"]
_PIECE_CHARS = 128
_PICTURES = "\u203c-\u3299\U0001f000-\U0001faff"
_VIRAMAS = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_AT_WORK = (  # what is seen by what it does to its neighbours
    rf"(?<=[{_PICTURES}#*0-9\xa9\xae])[\ufe0e\ufe0f]"
    rf"|(?<=[{_PICTURES}\ufe0f])\u200d(?=[{_PICTURES}])"
    rf"|(?<=[{_VIRAMAS}])[\u200c\u200d]"
    r"|(?<=[\u0620-\u06ff])\u200c(?=[\u0620-\u06ff])"
)
_UNSEEN = re.compile(
    rf"(?!{_AT_WORK})[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point, separators of lines and marks of annotations."""


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


def spelled_out(text: str, spelling: Callable[[str], str] = lambda c: f"\\u{{{ord(c):x}}}") -> str:
    """Text that shows what hides in it: models read invisible characters, people do not.

    Those that join letters or emoji stay. Control characters do as well.

    Args:
        text: as somebody else wrote it.
        spelling: of one such character; by default U+200B becomes `u{200b}` behind a
            backslash.
    """
    return _UNSEEN.sub(lambda found: spelling(found[0]), text)


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
