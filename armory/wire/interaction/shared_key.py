"""The secret with which all replicas seal request state.

Owns: agreeing on a secret in the store that they share. Never seals anything.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from armory.wire.interaction.sealing import SECRET_BYTES

_STATE_KEY = "state-key"
_YEARS_S = 10 * 365 * 86_400.0


class Store(Protocol):
    """Small values that every replica sees (`storage.cache.Cache`)."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Write only where nothing is; whether it was written."""
        ...


class SharedKey:
    """This replica's idea of the secret: its own, until there is another in the store.

    Args:
        store: shared by all replicas; whoever comes first makes the secret there.
        taken: told of every secret that is to be sealed with from now on.
    """

    def __init__(self, store: Store, taken: Callable[[bytes], None]) -> None:
        self._store = store
        self._taken = taken
        self._key = secrets.token_bytes(SECRET_BYTES)
        taken(self._key)

    async def tell(self) -> None:
        """Agree: again, where the store was away or has lost the secret.

        Raises:
            ArmoryError: the store failed.
        """
        key = await agreed(self._store, _STATE_KEY, self._key)
        if key != self._key:
            self._key = key
            self._taken(key)


async def agreed(store: Store, name: str, own: bytes) -> bytes:
    """What all replicas have under a name: `own`, unless another was there first.

    Raises:
        ArmoryError: the store failed.
    """
    await store.add(name, own, _YEARS_S)
    return await store.get(name) or own
