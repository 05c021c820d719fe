"""Opens and closes everything behind a gateway's ports, in order.

Owns: `assembled`. Never makes a part itself.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from armory import ending
from armory.accounts.opening import opened
from armory.config import Loaded
from armory.runtime.blocks.auditing import open_audit
from armory.runtime.blocks.pins import pinning_mode, pinning_of
from armory.runtime.entry.listeners import Listeners
from armory.runtime.replicas.shared import Shared, shared
from armory.runtime.retrieval import Progress
from armory.runtime.running import Runtime
from armory.runtime.serving import serve
from armory.runtime.settings import base_path, otel_settings
from armory.runtime.version import armory_version
from armory.telemetry.export import opened_tracing
from armory.wire.observed import Observers


async def assembled(
    loaded: Loaded,
    stack: AsyncExitStack,
    listeners: Listeners | None,
    *,
    trusted: bool = False,
    on_progress: Progress | None = None,
) -> Runtime:
    """A gateway that runs until `stack` unwinds, which drains it and closes everything in reverse
    order.

    Upstreams begin to connect before it is served, so that health checks say from the start what is
    missing.

    Args:
        loaded: the configuration.
        stack: closes what is opened here.
        listeners: where it is served; None: nowhere.
        trusted: as `opening.open_runtime`.
        on_progress: likewise.

    Raises:
        ConfigError: something in the configuration does not work out here.
    """
    joined = Shared()
    if listeners is not None:
        host, port = listeners.listening.host, listeners.listening.port
        joined = await shared(loaded.config, stack, host, port, base_path(loaded.config))
    observers = Observers()
    if not trusted:
        sending = opened_tracing(otel_settings(loaded.config), armory_version())
        observers = Observers(
            await stack.enter_async_context(sending), await open_audit(loaded, stack)
        )
    mode = pinning_mode(loaded.config, trusted=trusted)
    pinning = await asyncio.to_thread(pinning_of, loaded, mode)  # a large file takes a while
    runtime = Runtime(
        loaded, joined, pinning, trusted=trusted, on_progress=on_progress, observers=observers
    )
    if runtime.accounts is not None:
        runtime.opening = await stack.enter_async_context(opened(runtime.accounts))
        runtime.home.start()
        stack.push_async_callback(runtime.home.stop)
    stack.push_async_callback(runtime.stop_upstreams)
    if runtime.learning is not None:
        await runtime.learning.start()
        stack.push_async_callback(runtime.learning.close)
    await runtime.start_upstreams()
    await _open_agent(runtime, stack)
    if listeners is None:
        stack.callback(ending.begin)
    else:
        await serve(runtime, stack, listeners)
    return runtime


async def _open_agent(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Open the retrieval agent if it is enabled; `stack` closes it.

    Raises:
        ConfigError: its folder of documents, or a parser for it, is missing.
    """
    retriever, loaded = runtime.retriever, runtime.loaded
    if retriever is None or not loaded.config.agent.enabled:
        return
    from armory.runtime.blocks.agents import open_agent

    opened = await open_agent(loaded, retriever, retriever.embedder, stack)
    runtime.agent, runtime.documents = opened
