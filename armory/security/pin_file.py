"""The file of pinned definitions.

Owns: its form. Decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from armory.errors import ConfigError
from armory.files import replacing
from armory.protocol.rawjson import encode
from armory.threads import in_order


class Pin(NamedTuple):
    """A definition; of a file of earlier versions only its fingerprint."""

    fingerprint: str
    definition: Mapping[str, Any] | None = None


Pins = dict[str, dict[str, Pin]]
"""By server and original name."""


class Stored(NamedTuple):
    """What a file holds: definitions, and the day since which each removed server is missing."""

    pins: Pins
    removed: dict[str, str]


def write(path: Path, project: str, stored: Stored) -> None:
    """Write the file, one line for each tool, so that a diff of two files shows which ones differ.

    Raises:
        OSError: it cannot be written; it is as it was then.
    """
    with replacing(path) as file:
        file.write(b'{"version": 2, "project": %b, ' % _json(project))
        if stored.removed:
            file.write(b'"removed": %b, ' % _json(stored.removed))
        file.write(b'"tools": {')
        between = b""
        for server in sorted(stored.pins):
            pins = stored.pins[server]
            for original in in_order(pins):
                key, pin = f"{server}/{original}", pins[original]
                held = {"fingerprint": pin.fingerprint, "definition": pin.definition}
                file.write(b"%b\n%b: %b" % (between, _json(key), _json(held)))
                between = b","
        file.write(b"\n}}\n")


def _json(value: object) -> bytes:
    try:
        return encode(value)
    except (ValueError, OverflowError):  # half a surrogate pair, an integer of more than 64 bits
        return json.dumps(value).encode()


def read(path: Path) -> Stored:
    """What the file holds; nothing where there is none.

    Raises:
        ConfigError: it is not what `write` writes.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Stored({}, {})
    try:
        found: object = json.loads(text)
        pins: Pins = {}
        held = cast("Mapping[str, Any]", found)
        for key, value in held["tools"].items():
            server, _, original = str(key).partition("/")
            pins.setdefault(server, {})[original] = _pin(value)
        removed = {str(key): str(since) for key, since in held.get("removed", {}).items()}
        return Stored(pins, removed)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not a file of pinned definitions ({error}); "
            "move it away to pin every tool anew",
            path="security.pinning",
        ) from None


def _pin(value: Any) -> Pin:
    if isinstance(value, str):
        return Pin(value)
    return Pin(str(value["fingerprint"]), value.get("definition"))
