"""The secret that all replicas use to seal request state.

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
    """A store of small values that all replicas share (`storage.cache.Cache`)."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Set a value only where there is none; returns whether it was set."""
        ...


class SharedKey:
    """This replica's secret: its own, until the store has another.

    Args:
        store: shared by all replicas; whoever comes first makes the secret there.
        taken: called with every secret that seals from now on.
    """

    def __init__(self, store: Store, taken: Callable[[bytes], None]) -> None:
        self._store = store
        self._taken = taken
        self._key = secrets.token_bytes(SECRET_BYTES)
        taken(self._key)

    async def tell(self) -> None:
        """Agree on the secret; again after the store was away or has lost it.

        Raises:
            ArmoryError: the store failed.
        """
        key = await agreed(self._store, _STATE_KEY, self._key)
        if key != self._key:
            self._key = key
            self._taken(key)


async def agreed(store: Store, name: str, own: bytes) -> bytes:
    """The value that all replicas have under a name: `own`, unless another one was first.

    Raises:
        ArmoryError: the store failed.
    """
    await store.add(name, own, _YEARS_S)
    return await store.get(name) or own
