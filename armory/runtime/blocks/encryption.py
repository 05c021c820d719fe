"""The key that seals people's secrets: configured, or created on first use.

Owns: the file of the key. Never seals anything itself.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from armory.config import Loaded
from armory.errors import ConfigError

if TYPE_CHECKING:
    from armory.security.sealing import Seal

KEY_FILE = "key"
"""In ARMORY_HOME."""
_OTHERS = 0o077


def seals(loaded: Loaded) -> Seal:
    """The encryption by `security.encryption_key`, or by the key file, which is created if need be.

    Raises:
        ConfigError: the key is too short, or the file cannot be read or made, or holds no key.
    """
    from armory.security.sealing import Seal  # cryptography: only where something is sealed

    given = [key.get_secret_value() for key in loaded.config.security.encryption_key]
    if given:
        return Seal(given)
    file = loaded.home / KEY_FILE
    kept = _kept(file)
    try:
        return Seal([kept])
    except ConfigError:
        raise ConfigError(
            f"the key file {str(file)!r} is damaged: it holds no whole key; put the saved one in "
            "its place, or remove it: then people log in again at upstreams",
            path="security.encryption_key",
        ) from None


def has_key_file(loaded: Loaded) -> bool:
    """Whether a key file is used and exists."""
    return not loaded.config.security.encryption_key and (loaded.home / KEY_FILE).exists()


def _kept(path: Path) -> str:
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & _OTHERS:
            with suppress(OSError):  # it is another user's, or mounted: whoever put it there knows
                path.chmod(0o600)
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the key file {str(path)!r} cannot be used ({type(error).__name__}); give a key here",
            path="security.encryption_key",
        ) from None


def _make(path: Path) -> None:
    """Create the file, unless another process does so first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
