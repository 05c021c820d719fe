"""The key of the tags that identify versions of the configuration file, shared by all replicas.

Owns: agreeing on it. Never sees the file.
"""

from __future__ import annotations

import hashlib
import secrets

from armory.errors import ArmoryError
from armory.logger import Logger
from armory.storage.cache import Cache
from armory.wire.interaction.shared_key import agreed

_log = Logger(__name__)
_NAME = "configuration-tag-key"
_BYTES = 32
_PURPOSE = b"armory: tags of the configuration file"


class TagKey:
    """The key, agreed on through the store that replicas share.

    Args:
        store: shared by all replicas; whoever comes first makes the key there. None: there is none.
        secret: that replicas without a store share, where there is one.
    """

    def __init__(self, store: Cache | None = None, secret: str | None = None) -> None:
        self._store = store
        self._key = (
            secrets.token_bytes(_BYTES)
            if secret is None
            else hashlib.blake2b(_PURPOSE, key=hashlib.sha256(secret.encode()).digest()).digest()
        )

    async def current(self) -> bytes:
        """The key; while the store is away, the last known one."""
        if self._store is not None:
            try:
                self._key = await agreed(self._store, _NAME, self._key)
            except ArmoryError as error:
                _log.info("configuration_tag_key_not_shared", error=error.message)
        return self._key
