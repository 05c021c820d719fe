"""From a configuration to a running gateway, and back: the order in which things open and close.

Owns: `open_runtime`. Never makes a part itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from armory.accounts.opening import opened
from armory.config import Loaded
from armory.runtime.blocks.auditing import open_audit
from armory.runtime.blocks.replicas import Shared, shared
from armory.runtime.health import bind_metrics
from armory.runtime.retrieval import Progress
from armory.runtime.running import Runtime
from armory.runtime.serving import serve
from armory.runtime.settings import base_path, otel_settings
from armory.runtime.version import armory_version
from armory.storage.private import private_folder
from armory.telemetry.export import opened_tracing
from armory.web.binding import Bound, bind
from armory.wire.observed import Observers


@asynccontextmanager
async def open_runtime(
    loaded: Loaded,
    *,
    address: tuple[str, int] | None = None,
    trusted: bool = False,
    on_progress: Progress | None = None,
) -> AsyncGenerator[Runtime]:
    """A running gateway for as long as the context lasts.

    The port is bound before anything is started, so that a taken one starts nothing; upstreams
    begin to connect, then it is served, so that health answers from the start; requests to MCP
    endpoints wait for the first snapshot. Leaving drains and closes in reverse.

    Args:
        loaded: the configuration.
        address: (host, port) to listen on; None: serve nobody (`Runtime.gateway` can be used).
        trusted: whether policies are left out, for the operator's own commands.
        on_progress: called with (texts embedded, texts to embed) while tools are indexed.

    Raises:
        ConfigError: something in the configuration does not work out here.
    """
    bound = None if address is None else bind(*address)
    async with AsyncExitStack() as stack:
        apart: Bound | None = None
        joined = Shared()
        if bound is not None:
            stack.callback(bound.close)
            apart = bind_metrics(loaded, bound.host)
            if apart is not None:
                stack.callback(apart.close)
            prefix = base_path(loaded.config)
            joined = await shared(loaded.config, stack, bound.host, bound.port, prefix)
        private_folder(loaded.home)
        observers = Observers()
        if not trusted:
            sending = opened_tracing(otel_settings(loaded.config), armory_version())
            observers = Observers(
                await stack.enter_async_context(sending), await open_audit(loaded, stack)
            )
        runtime = Runtime(
            loaded, joined, trusted=trusted, on_progress=on_progress, observers=observers
        )
        if runtime.accounts is not None:
            runtime.opening = await stack.enter_async_context(opened(runtime.accounts))
        stack.push_async_callback(runtime.stop_upstreams)
        if runtime.learning is not None:
            await runtime.learning.start()
            stack.push_async_callback(runtime.learning.close)
        await runtime.start_upstreams()
        await runtime.open_agent(stack)
        if bound is not None:
            await serve(runtime, stack, bound, apart)
        yield runtime
