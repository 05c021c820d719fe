"""Which certificate authorities are trusted where the configuration names none.

Owns: `trusted`, and what is said of a certificate that is not. Never imports a room: every one that
connects may ask.
"""

from __future__ import annotations

import os
import ssl

_kept: dict[tuple[str | int, ...], ssl.SSLContext] = {}


def trusted() -> ssl.SSLContext:
    """The default TLS context: authorities from the file that `SSL_CERT_FILE` names, or the
    platform's.

    It is shared by all connections: reading a hundred authorities takes tens of milliseconds and a
    megabyte. It is built again when the file was replaced while the gateway runs.
    """
    which = _which()
    found = _kept.get(which)
    if found is None:
        found = ssl.create_default_context()
        _kept.clear()
        _kept[which] = found
    return found


def refused(error: BaseException | None) -> str:
    """Why a certificate was refused; "" where the error is another."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return ""
    inner = getattr(error, "certificate_error", error)  # in aiohttp's, which says nothing itself
    return getattr(inner, "verify_message", "").rstrip(".") or "it cannot be checked"


def _which() -> tuple[str | int, ...]:
    """What identifies the present version of the file."""
    file = ssl.get_default_verify_paths().cafile
    if not file:  # there is none
        return ()
    try:
        found = os.stat(file)
    except OSError:  # it is being replaced
        return (file,)
    return file, found.st_ino, found.st_size, found.st_mtime_ns
