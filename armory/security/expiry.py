"""Ends work when the credential that started it expires or is revoked.

Owns: when that is, for any kind of work. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from armory.domain.principal import Principal
from armory.errors import AccessDenied, ArmoryError, AuthenticationFailed
from armory.logger import Logger
from armory.security.authentication import Authenticator
from armory.tasks import Tasks

_log = Logger(__name__)
_LOOK_S = 60.0
"""How often the time is checked: the event loop's clock stands still while a machine sleeps."""


async def while_valid(principal: Principal, work: Awaitable[None]) -> bool:
    """Run the work until it is done or the principal's credential expires, whichever comes first.

    Returns:
        Whether the work came to its end.
    """
    expires_at = principal.expires_at
    if expires_at is None:
        await work
        return True
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(_left_s(expires_at))

    def look() -> None:
        nonlocal looking
        if not limit.expired():
            limit.reschedule(loop.time() + _left_s(expires_at))
            looking = loop.call_later(_LOOK_S, look)

    looking = loop.call_later(_LOOK_S, look)
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    finally:
        looking.cancel()
    return True


def _left_s(expires_at: float) -> float:
    return max(0.0, expires_at - time.time())


@asynccontextmanager
async def while_authorized(
    authenticator: Authenticator, ask: Callable[[], Awaitable[object]]
) -> AsyncGenerator[None]:
    """Run the block for as long as its caller stays authorized.

    Args:
        authenticator: reports when a credential has ended.
        ask: authenticates the caller again; called whenever any credential has ended.

    Raises:
        AuthenticationFailed, AccessDenied: raised by `ask`; the block was cancelled. If `ask` fails
            otherwise, as while a database is unreachable, the block goes on.
    """
    task, asking = asyncio.current_task(), Tasks()
    assert task is not None
    refused: list[ArmoryError] = []

    async def again() -> None:
        try:
            await ask()
        except (AuthenticationFailed, AccessDenied) as error:
            if not refused:
                refused.append(error)
                task.cancel()
        except ArmoryError as error:
            _log.warning("credential_not_looked_at_again", error=error.message)

    def look() -> None:
        asking.spawn(again(), "who asks")

    authenticator.on_ending.add(look)
    try:
        yield
    except asyncio.CancelledError:
        if not refused or task.uncancel():  # then somebody else cancels as well
            raise
        raise refused.pop() from None  # else it would hold itself, by its trace
    finally:
        authenticator.on_ending.discard(look)
        asking.cancel()
    if refused:  # and nothing was waited for any more that could be cancelled
        task.uncancel()
        raise refused.pop()
