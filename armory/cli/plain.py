"""Makes text from servers, callers and registries safe to print on a terminal.

Owns: taking out what a terminal would obey: nobody but the commands moves its cursor, names its
window or writes its clipboard. Never imports anything else of Armory.
"""

from __future__ import annotations

import re

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"  # colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"  # titles, links, the clipboard
    r"(?:[^\x07\x1b\x80-\x9f]*+(?:\x07|\x9c|\x1b\\))?"
    r"|\x1b[ -/]*+[0-~]?"
)
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, and those that change the direction of a text."""
_ABOVE_ASCII = re.compile(r"[\x7f-\x9f]")


def plain(text: str) -> str:
    """Text without escape sequences and control characters; line ends and tabs stay."""
    if text.isprintable():
        return text
    return _OBEYED.sub("", _SEQUENCES.sub("", text))


def plain_json(text: str) -> str:
    """Equivalent JSON with control characters escaped."""
    return _ABOVE_ASCII.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
