"""Plain calls of tools whose 2025-11-25 upstreams require a task.

Owns: creating the task, waiting for it, fetching its result, cancelling it. Never imports a
transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from msgspec import Raw

from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError, UpstreamTimeout
from armory.gateway.views.definitions import must_be_task
from armory.protocol.link import Params, Reply
from armory.protocol.rawjson import members_or_none, pack, scalar, text_of
from armory.tasks import shielded, start

Send = Callable[[str, Params], Coroutine[Any, Any, Reply]]
WAIT_S = 600.0
_SHORTEST_S = 0.05
_LONGEST_S = 5.0
_TTL_MS = 900_000
_CANCEL_S = 5.0
"""How long a call that has ended waits until its task is cancelled."""
_OVER = frozenset(("completed", "failed", "cancelled", "input_required"))


def needs_task(record: ToolRecord, params: Params) -> bool:
    """Whether a plain call of the tool would be refused by its upstream."""
    return "task" not in params and must_be_task(record)


async def drive(server: str, params: Params, send: Send) -> Reply:
    """Call such a tool as a task, and wait for its result.

    Args:
        server: the upstream, for messages.
        params: of the `tools/call`, in the upstream's names.
        send: puts a request to the upstream on the caller's behalf.

    Raises:
        UpstreamTimeout: the task was not done within ten minutes.
    """
    created = await send("tools/call", {**params, "task": pack({"ttl": _TTL_MS})})
    task = members_or_none((members_or_none(created.result) or {}).get("task"))
    id = text_of(task, "taskId") if task is not None else None
    if task is None or id is None:  # refused, or answered at once
        return created
    named: Params = {"taskId": pack(id)}
    try:
        async with asyncio.timeout(WAIT_S):
            while text_of(task, "status") not in _OVER:
                await asyncio.sleep(_interval_s(task))
                reply = await send("tasks/get", dict(named))
                task = members_or_none(reply.result)
                if task is None:
                    await _cancelled(send, named)
                    return reply
            return await send("tasks/result", dict(named))
    except TimeoutError:
        await _cancelled(send, named)
        raise UpstreamTimeout(
            f"upstream {server!r}: its task was not done after {WAIT_S:g} s", upstream=server
        ) from None
    except ArmoryError:
        await _cancelled(send, named)
        raise
    except asyncio.CancelledError:
        await shielded(start(_cancelled(send, named), "tasks/cancel"))
        raise


async def _cancelled(send: Send, named: Params) -> None:
    """Cancel a task, if its server can be reached; the call has ended in either case."""
    with suppress(ArmoryError, TimeoutError):
        async with asyncio.timeout(_CANCEL_S):
            await send("tasks/cancel", dict(named))


def _interval_s(task: dict[str, Raw]) -> float:
    wanted = scalar(task.get("pollInterval"))
    milliseconds = wanted if isinstance(wanted, int | float) else 500
    return min(max(milliseconds, _SHORTEST_S * 1_000), _LONGEST_S * 1_000) / 1_000
