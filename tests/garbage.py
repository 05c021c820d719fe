"""Whether what has ended is gone with its last reference, without a garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager

from armory.testing.waiting import until

Gone = Callable[[type], Awaitable[None]]


def there_are(kind: type) -> int:
    """How many, garbage included."""
    return sum(issubclass(type(found), kind) for found in gc.get_objects())


@contextmanager
def none_collected(kinds: Iterable[type]) -> Generator[Gone]:
    """Collects nothing meanwhile; waits until no more objects of a kind are there than before."""
    gc.collect()
    gc.disable()
    before = {kind: there_are(kind) for kind in kinds}

    async def gone(kind: type) -> None:
        await until(lambda: there_are(kind) <= before[kind])

    try:
        yield gone
    finally:
        gc.enable()
