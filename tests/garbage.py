"""Whether what has ended is gone with its last reference, without a garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from armory.testing.waiting import until

Gone = Callable[[type], Awaitable[None]]


def there_are(kind: type) -> int:
    """How many, garbage included; within `none_collected` of what was made since it began."""
    return sum(issubclass(type(found), kind) for found in gc.get_objects())


@contextmanager
def none_collected() -> Generator[Gone]:
    """Collects nothing meanwhile; waits until nothing is left of what was made of a kind."""
    gc.collect()
    gc.disable()
    gc.freeze()  # else each look would go through all that earlier tests left

    async def gone(kind: type) -> None:
        await until(lambda: not there_are(kind))

    try:
        yield gone
    finally:
        gc.unfreeze()
        gc.enable()
