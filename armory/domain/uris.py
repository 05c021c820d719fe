"""What a URI means to whoever opens it, beside how it is written.

Owns: its plain form, and whether it may lead elsewhere. Never imports anything but the standard
library.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_DECODED = 5
"""How often a URI may be percent-decoded on its way to the file or page that it names."""
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?(.*)", re.DOTALL)
_SLASHES = re.compile("//+")
_STEP = re.compile(
    r"(?:[/\\]|\A(?:[A-Za-z][A-Za-z0-9+.-]*:)?)"  # behind a slash, or where its path begins
    r"\.\.?"
    r"(?:[/\\?#;]|\Z)"  # up to the next, or where its path ends
)
_USUAL = re.compile(
    r"(?!file://localhost)[a-z][a-z0-9+.-]*://(?:[a-z0-9][a-z0-9.:-]*)?(?:/(?![./])[^/%\\]*)*"
)
"""Most URIs: seen at once to be plain and to have no `.` or `..` segments."""


def has_steps(uri: str) -> bool:
    """Whether it may lead elsewhere than it says: a part of it is `.` or `..`, or becomes that when
    it is decoded, or backslashes count as slashes.
    """
    return _USUAL.fullmatch(uri) is None and _STEP.search(_decoded(uri)) is not None


def plain(uri: str) -> str:
    """It without what servers see no difference in: encoded characters, upper case in scheme and
    host, `localhost` as the host of a file, more slashes than one.
    """
    if _USUAL.fullmatch(uri) is not None:
        return uri
    found = _AUTHORITY.fullmatch(_decoded(uri))
    if found is None:
        return uri
    scheme, host, rest = found[1].lower(), found[2], found[3]
    if host is None:
        return f"{scheme}:{rest}"
    host = "" if scheme == "file" and host.lower() == "localhost" else host.lower()
    return f"{scheme}://{host}{_SLASHES.sub('/', rest)}"


def _decoded(uri: str) -> str:
    for _ in range(_DECODED):
        uri, before = unquote(uri), uri
        if uri == before:
            break
    return uri
