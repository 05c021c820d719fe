"""`armory serve`: the gateway in the foreground, until a signal ends it.

Owns: the command, signals and watching the configuration file. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import click

from armory.cli.options import config_option, say_notices
from armory.cli.output import err, print_json, say_error, say_notice
from armory.config import Loaded, find_config
from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import ConfigError
from armory.observability.logging import configure_logging
from armory.runtime import Runtime, open_runtime
from armory.runtime.checking import checked
from armory.runtime.settings import log_settings, stdio_settings
from armory.tasks import start
from armory.tasks import stop as end
from armory.wire.stdio import serve_stdio

WATCH_S = 1.0
PROGRESS_S = 15.0
_USER_VARIABLES = ("ARMORY_USER", "AGENT_COREX_USER_ID")


@click.command()
@config_option
@click.option("--host", help="Address to bind; default: server.host.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to bind, 0: any that is free.")
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
@click.option("--json", "as_json", is_flag=True, help="Say where it listens in JSON.")
def serve(
    config: str | None, host: str | None, port: int | None, stdio: bool, as_json: bool
) -> None:
    """Run the gateway.

    SIGTERM and Ctrl-C end it after the calls in flight; SIGHUP, or a change of the file, puts a new
    configuration in force.
    """
    loaded = _with_address(checked(find_config(config)), host, port)
    say_notices(loaded)
    configure_logging(log_settings(loaded.config))
    asyncio.run(_serve_stdio(loaded) if stdio else _serve(loaded, host, port, as_json))


def _with_address(loaded: Loaded, host: str | None, port: int | None) -> Loaded:
    """The configuration with what the command line says instead."""
    given = {"host": host, "port": port}
    server = loaded.config.server.model_copy(
        update={key: value for key, value in given.items() if value is not None}
    )
    config = loaded.config.model_copy(update={"server": server})
    return replace(loaded, config=config)


class Indexing:
    """Says how far the embedding of tools has come, where it takes long.

    Args:
        every_s: seconds between two lines; what ends earlier is not spoken of.
        clock: seconds, monotonic.
    """

    def __init__(
        self, every_s: float = PROGRESS_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_s = every_s
        self._clock = clock
        self._said: float | None = None

    def shown(self, done: int, total: int) -> None:
        """So many of so many texts are embedded."""
        now = self._clock()
        if self._said is None:
            self._said = now
        if done < total and now - self._said >= self._every_s:
            self._said = now
            err().print(f"armory: embedding tools, {done:,} of {total:,} texts", markup=False)
        elif done >= total:
            self._said = None


async def _serve(loaded: Loaded, host: str | None, port: int | None, as_json: bool) -> None:
    server = loaded.config.server
    stop = asyncio.Event()
    reload = asyncio.Event()
    _on_signals(stop, reload)
    address = server.host, server.port
    async with open_runtime(loaded, address=address, on_progress=Indexing().shown) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp"
        bound = runtime.listening
        if as_json:
            told = {"url": url, "host": bound.host, "port": bound.port, "pid": os.getpid()}
            print_json(told)
        else:
            also = f" (bound to {bound.address}: every address)" if bound.everywhere else ""
            err().print(f"armory: listening on {url}{also}", soft_wrap=True, markup=False)
        tasks = [
            start(_say_ready(runtime), "say when it is ready"),
            start(_watch(loaded, reload), "watch the configuration"),
            start(_reload_on(reload, runtime, host, port), "reload"),
        ]
        try:
            await stop.wait()
            if server.drain_delay_s:
                wait_s = server.drain_delay_s
                err().print(f"armory: ends in {wait_s:g} s, requests may still come", markup=False)
                await runtime.leave(wait_s)
        finally:
            await end(*tasks)
        err().print("armory: shutting down, calls in flight may finish")


async def _serve_stdio(loaded: Loaded) -> None:
    principal = ANONYMOUS
    for variable in _USER_VARIABLES:
        if user := os.environ.get(variable):
            principal = Principal(user, user=user, method="environment")
            break
    stop = asyncio.Event()
    reload = asyncio.Event()
    _on_signals(stop, reload)
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(open_runtime(loaded))
        await runtime.admit(principal)
        await runtime.ready()
        _settle_memory()
        served = serve_stdio(runtime.gateway, principal, settings=stdio_settings(loaded.config))
        serving = start(served, "serve standard input")
        stopping = start(stop.wait(), "wait for a signal")
        reloading = start(_reload_on(reload, runtime, None, None), "reload")
        watching = start(_watch(loaded, reload), "watch the configuration")
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        await end(serving, stopping, reloading, watching)
        if not serving.cancelled():
            serving.result()


def _on_signals(stop: asyncio.Event, reload: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():  # asked twice: do not wait for anything
            os._exit(130)
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, end)
    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, reload.set)


async def _say_ready(runtime: Runtime) -> None:
    await runtime.ready()
    _settle_memory()
    status = runtime.supervisor.status()
    down = {key: found for key, found in status.items() if found.state != "ready"}
    tools = len(runtime.gateway.view.catalog.tools)
    console = err()
    console.print(
        f"armory: ready, {len(status) - len(down)} of {len(status)} upstreams, {tools} tools",
        markup=False,
    )
    readiness = runtime.readiness()
    if not readiness.ready:
        say_notice(f"/readyz says no for now: {readiness.missing[0]}")
    for key, found in down.items():
        say_notice(found.error or f"upstream {key!r}: {found.awaited or 'still connecting'}")


def _settle_memory() -> None:
    """Spare later collections what stays: modules, configuration and the first snapshot.

    A full collection over them stops every call for 0.1 s, more with a large catalog.
    """
    gc.collect()
    gc.freeze()


async def _watch(loaded: Loaded, reload: asyncio.Event) -> None:
    """Ask for a reload when the file changes."""
    if loaded.path is None:
        return
    seen = await asyncio.to_thread(_stamp, loaded)
    while True:
        await asyncio.sleep(WATCH_S)
        now = await asyncio.to_thread(_stamp, loaded)
        if now != seen and now is not None:
            seen = now
            reload.set()


def _stamp(loaded: Loaded) -> tuple[int, int] | None:
    assert loaded.path is not None
    try:
        found = loaded.path.stat()
    except OSError:  # an editor is replacing it
        return None
    return found.st_mtime_ns, found.st_size


async def _reload_on(
    reload: asyncio.Event, runtime: Runtime, host: str | None, port: int | None
) -> None:
    while True:
        await reload.wait()
        reload.clear()
        path = runtime.loaded.path
        if path is None:
            continue
        try:
            loaded = await asyncio.to_thread(checked, path)
            report = await runtime.reload(_with_address(loaded, host, port))
        except ConfigError as error:
            say_error(f"{error}\nThe configuration in force stays.")
            continue
        if not report.applied and not report.needs_restart:
            continue
        applied = ", ".join(report.applied) or "nothing"
        err().print(f"armory: reloaded {path}: {applied}", markup=False, soft_wrap=True)
        if report.needs_restart:
            say_notice(f"takes effect after a restart: {', '.join(report.needs_restart)}")
