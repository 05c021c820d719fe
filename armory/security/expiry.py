"""Ending the streams that a credential opened, when it expires.

Owns: that moment, for any kind of work. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from armory.domain.principal import Principal


async def while_valid(principal: Principal, work: Awaitable[None]) -> bool:
    """Do the work until it is done or the principal's credential expires, whichever comes first.

    Returns:
        Whether the work came to its end.
    """
    if principal.expires_at is None:
        await work
        return True
    limit = asyncio.timeout(max(0.0, principal.expires_at - time.time()))
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    return True
