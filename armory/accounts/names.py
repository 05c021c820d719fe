"""Validation of the names of users, packs and installations.

Owns: which names are allowed. Never imports storage.
"""

from __future__ import annotations

import re

from armory.domain.principal import OWNER_CHARS as MAX_NAME
from armory.errors import InvalidRequest

_STEPS = (".", "..")
"""Steps in the path of a URL: what has such a name could not be addressed over REST."""
_PACK = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


class AlreadyExists(InvalidRequest):
    """The object to be created exists already."""

    code = "already_exists"


def check_name(value: str, parameter: str) -> str:
    """Return a name if it can be stored: 1 to 200 printable characters, no space at either end,
    neither `.` nor `..`.

    Raises:
        InvalidRequest: the name cannot be stored.
    """
    well = 1 <= len(value) <= MAX_NAME and value.isprintable() and value == value.strip()
    if not well or value in _STEPS:
        raise InvalidRequest(
            f"{parameter} is {value[:40]!r}; expected 1 to {MAX_NAME} printable characters "
            "without spaces at the ends, and neither . nor ..",
            parameter=parameter,
        )
    return value


def check_pack_id(value: str) -> str:
    """Return the id of a pack if valid: lower-case letters, digits and hyphens, at most 64.

    Raises:
        InvalidRequest: the id has another form.
    """
    if _PACK.fullmatch(value) is None:
        raise InvalidRequest(
            f"id is {value[:40]!r}; expected lower-case letters, digits and hyphens, at most 64",
            parameter="id",
        )
    return value
