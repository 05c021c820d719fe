"""Normalises URIs as clients and servers do that open them.

Owns: the normal form, the check for dot segments, and which foreign URLs a library may read. Never
imports another room.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from armory.domain.encoding import normalized

_DECODED = 5
"""How often a URI may be percent-decoded on its way to the file or page that it names."""
_IGNORED = re.compile(r"[\t\n\r]+")
"""What parsers of URLs leave out, wherever it stands (WHATWG URL, 4.4; Python's too)."""
_ENDS = "".join(map(chr, range(0x21)))
"""Control characters and the space, which they leave out at both ends."""
_FOREIGN_CHARS = 2_048
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"//([^/?]*)(.*)", re.DOTALL)
_PORTS = {"ftp": ":21", "http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}
"""Schemes that name a host however many slashes are before it, and their ports."""
_SLASHES = re.compile("//+")
_STEP = re.compile(
    r"(?:[/\\]|\A(?:[A-Za-z][A-Za-z0-9+.-]*:)?)"  # behind a slash, or where its path begins
    r"\.\.?"
    r"(?:[/\\?#;]|\Z)"  # up to the next, or where its path ends
)
_USUAL = re.compile(
    r"(?!file://localhost|(?:ftp|https?|wss?)://(?:/|[^/]*\Z))"
    r"[a-z][a-z0-9+.-]*://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9-])?)?"
    r"(?:/(?!\.)[^/%\\?#\x00-\x20]+)*"
)
"""Most URIs: seen at once to be plain and to have no `.` or `..` segments."""


def readable(url: str) -> str:
    """A URL that somebody else wrote, where a library may read it: they prepare a host of other
    letters (IDNA) in quadratic time, minutes for one of a few hundred KB. Of what they read, only
    `raw_host` is the host: `host` raises where `xn--...` stands for nothing.

    Raises:
        ValueError: it has more than 2,048 characters, not all of ASCII.
    """
    if len(url) > _FOREIGN_CHARS and not url.isascii():
        raise ValueError(f"a URL of {len(url):,} characters, not all of ASCII")
    return url


def has_steps(uri: str) -> bool:
    """Whether a URI has dot segments, also encoded ones or with backslashes, that lead elsewhere
    than it says.
    """
    return _USUAL.fullmatch(uri) is None and _STEP.search(_decoded(uri)) is not None


def plain(uri: str) -> str:
    """The normal form of a URI: encoded characters, upper case in scheme and host, other spellings
    of a host, and extra or missing slashes make no difference, nor does what `read` removes.
    """
    if _USUAL.fullmatch(uri) is not None:
        return uri
    found = _SCHEME.fullmatch(_decoded(uri))
    if found is None:
        return uri
    scheme, rest = found[1].lower(), found[2].replace("\\", "/").partition("#")[0]
    if scheme == "file":
        rest = rest.partition("?")[0]
        rest = rest if rest.startswith("//") else f"///{rest}"
    elif scheme in _PORTS:
        rest = f"//{rest.lstrip('/')}"
    named = _AUTHORITY.fullmatch(rest)
    if named is None:
        return f"{scheme}:{rest}"
    path, mark, query = named[2].partition("?")
    path = _SLASHES.sub("/", path)
    path = path.rstrip("/") or "/" if path or scheme in _PORTS else ""
    return f"{scheme}://{_host(scheme, named[1])}{path}{mark}{query}"


def read(uri: str) -> str:
    """The URI without what parsers ignore, without the fragment of a file or web URI, and without
    the query of a file URI.
    """
    if _USUAL.fullmatch(uri) is not None:
        return uri
    uri = _without_ignored(uri)
    scheme = uri.partition(":")[0].lower()
    if scheme == "file" or scheme in _PORTS:
        uri = uri.partition("#")[0]
    return uri.partition("?")[0] if scheme == "file" else uri


def _host(scheme: str, host: str) -> str:
    host = normalized("NFKC", host).lower()
    if scheme in _PORTS:
        host = host.rpartition("@")[2].removesuffix(_PORTS[scheme]).removesuffix(".")
    return "" if scheme == "file" and host == "localhost" else host


def _decoded(uri: str) -> str:
    for _ in range(_DECODED):
        uri, before = unquote(_without_ignored(uri)), uri
        if uri == before:
            break
    return uri


def _without_ignored(uri: str) -> str:
    return _IGNORED.sub("", uri).strip(_ENDS)
