"""Finding out which protocol era a process speaks that was just started.

Owns: the probe, and `initialize` beside it where that stays unanswered. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.logger import Logger
from armory.tasks import start, stop
from armory.upstreams.session.context import Identity
from armory.upstreams.session.handshake import Incompatible, NotModern, discover, initialize
from armory.upstreams.transports.stdio import StdioLink

log = Logger(__name__)


async def meet(
    link: StdioLink, offer: str | None, capabilities: Mapping[str, Any], within_s: float
) -> Identity | None:
    """Probe a process that was just started; None when it must be restarted to be initialised.

    A process that is silent for a third of the time gets `initialize` beside the probe: it may be
    slow to start, or one that answers nothing that it does not know.

    Args:
        link: to the process.
        offer: the legacy revision to offer; None: it must be modern.
        capabilities: declared in `initialize`.
        within_s: deadline of all of it.

    Raises:
        NotModern: it must be, and is not.
        UpstreamUnavailable: it spoke, and nothing that is known here.
    """
    third = link.spec.connect_timeout_s / 3
    probe = start(discover(link, within_s), f"probe {link.server}")
    tasks = {probe}
    found: Identity | BaseException | None = None
    try:
        await asyncio.wait(tasks, timeout=third)
        if offer is None:
            return await probe
        if probe.done() and (identity := _outcome(probe)) is not None:
            return identity
        if link.closed:
            return None
        handshake = initialize(link, offer, capabilities, within_s - third)
        tasks.add(start(handshake, f"initialize {link.server}"))
        found = await _first_of(tasks, link)
        if isinstance(found, BaseException):
            raise found
        return found
    finally:
        await stop(*tasks)
        tasks.clear()
        del probe, found  # whose errors hold this frame by their traces


async def _first_of(
    tasks: set[asyncio.Task[Identity]], link: StdioLink
) -> Identity | BaseException | None:
    """The first successful result of several attempts, or the error to raise; None when the process
    is of no more use.
    """
    waiting, refusal = set(tasks), None
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if error is None:
                return task.result()
            if isinstance(error, UpstreamUnavailable) and not isinstance(error, UpstreamTimeout):
                refusal = error
            elif not isinstance(error, NotModern | UpstreamTimeout):
                return error
    return None if link.closed else refusal


def _outcome(probe: asyncio.Task[Identity]) -> Identity | None:
    """The identity that a finished probe found; None when the upstream is not modern."""
    error = probe.exception()
    if error is None:
        return probe.result()
    if isinstance(error, NotModern):
        return None
    try:
        if isinstance(error, Incompatible) or not isinstance(error, UpstreamUnavailable):
            raise error
        log.debug("upstream_probe_failed", error=str(error))
        return None
    finally:
        del probe, error  # which hold this frame by the error's trace
