"""Validation of redirect URIs.

Owns: the form of redirect URIs, exact comparison, and the configured patterns. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from yarl import URL

MAX_CHARS = 500
_FORM = re.compile(r"([a-z][a-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?[^#]*)?")
_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?@!$&'()*+,;=%\[\]-]+")
_LOOPBACK = frozenset(("127.0.0.1", "[::1]", "localhost"))
_BY_BROWSERS = frozenset(
    ("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "javascript", "mailto",
     "resource", "tel", "vbscript", "view-source", "ws", "wss")
)  # fmt: skip


class _Parts(NamedTuple):
    scheme: str
    host: str
    port: str
    path: str


def _parts(uri: str) -> _Parts | None:
    found = _FORM.fullmatch(uri)
    if found is None:
        return None
    authority = found[2] or ""
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]") or "@" in authority:  # what is before an @ is no host
        host, port = authority, ""
    return _Parts(found[1], host.lower(), port, found[3])


def _is_port(port: str) -> bool:
    return port.isdigit() and len(port) <= 5


def problem(uri: str) -> str | None:
    """Why a URI is unsafe as a redirect URI; None: it is safe."""
    if not 1 <= len(uri) <= MAX_CHARS:
        return f"a redirect URI has at most {MAX_CHARS} characters"
    if _CHARACTERS.fullmatch(uri) is None:
        return "a redirect URI has ASCII characters of URIs only, and no fragment"
    parts = _parts(uri)
    if parts is None:
        return "a redirect URI is absolute, with a scheme in lower case"
    if "@" in parts.host:
        return "a redirect URI names no user"
    wrong = _problem_of_web(parts) if parts.scheme in ("http", "https") else None
    if parts.scheme in _BY_BROWSERS:
        wrong = f"the scheme {parts.scheme!r} belongs to browsers"
    if wrong is None and not _is_readable(uri):
        wrong = "a redirect URI has a host and a port that can be read"
    return wrong


def _problem_of_web(parts: _Parts) -> str | None:
    if parts.port and not _is_port(parts.port):
        return "a redirect URI has a port of 1 to 5 digits, or none"
    if "%" in parts.host:  # browsers would go to another one than the person is shown
        return "a redirect URI names its host without %"
    if parts.scheme == "https":
        return None if parts.host else "a redirect URI of https names a host"
    if parts.host in _LOOPBACK:
        return None
    return "a redirect URI of http is on loopback: http://127.0.0.1:PORT/..."


def _is_readable(uri: str) -> bool:
    """Whether parameters can be added to a URI."""
    try:
        return bool(str(URL(uri, encoded=True).update_query({"code": ""})))
    except ValueError:
        return False


def is_allowed(uri: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns allows a URI; without patterns every URI is.

    Scheme, host, port and path are matched separately, so that `*` in one never reaches into
    another.
    """
    if not patterns:
        return True
    parts = _parts(uri)
    return parts is not None and any(_fits(parts, _parts(pattern)) for pattern in patterns)


def _fits(parts: _Parts, pattern: _Parts | None) -> bool:
    return (
        pattern is not None
        and parts.scheme == pattern.scheme
        and fnmatchcase(parts.host, pattern.host)
        and (parts.port == pattern.port or pattern.port == "*")
        and fnmatchcase(parts.path, pattern.path or "/")
    )


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Whether a URI is one of the registered ones: exactly, except for the port on loopback, which
    the system chooses anew each time (RFC 8252, 7.3).
    """
    if uri in registered:
        return True
    loose = _without_port(uri)
    return loose is not None and any(loose == _without_port(known) for known in registered)


def _without_port(uri: str) -> str | None:
    """A loopback URI without its port; None for any other."""
    found, parts = _FORM.fullmatch(uri), _parts(uri)
    if found is None or parts is None or parts.scheme != "http" or parts.host not in _LOOPBACK:
        return None
    if parts.port and not _is_port(parts.port):
        return None
    return f"{parts.host}{uri[found.end(2) :]}"


def shown(uri: str) -> str:
    """Where a URI leads, for people: its host, or its scheme."""
    parts = _parts(uri)
    if parts is None:
        return uri
    if parts.scheme == "http":
        return "a program on this computer"
    return parts.host if parts.scheme == "https" else f"a program on this device ({parts.scheme}:)"
