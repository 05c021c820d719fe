"""Makes text from servers, callers and registries safe to print on a terminal.

Owns: taking out what a terminal would obey: nobody but the commands moves its cursor, names its
window or writes its clipboard. What it would not show is spelled out: a definition is approved for
what a person sees of it. Never imports anything else of Armory but the domain.
"""

from __future__ import annotations

import json
import re

from armory.domain.encoding import spelled_out

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"  # colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"  # titles, links, the clipboard
    r"(?:[^\x07\x1b\x80-\x9f]*+(?:\x07|\x9c|\x1b\\))?"
    r"|\x1b[ -/]*+[0-~]?"
)
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except tab and line feed."""
_ABOVE_ASCII = re.compile(r"[\x7f-\x9f]")


def plain(text: str) -> str:
    """Text without escape sequences and control characters, others that cannot be seen spelled
    out; line ends and tabs stay.
    """
    if not text.isprintable():
        text = _OBEYED.sub("", _SEQUENCES.sub("", text))
    return text if text.isascii() else spelled_out(text)


def plain_json(text: str) -> str:
    """Equivalent JSON with control characters, and others that cannot be seen, escaped."""
    if text.isascii() and text.isprintable():
        return text
    text = _ABOVE_ASCII.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return spelled_out(text, lambda char: json.dumps(char)[1:-1])
