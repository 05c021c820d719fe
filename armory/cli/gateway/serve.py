"""`armory serve`: the gateway in the foreground, until a signal ends it.

Owns: the command, signals and watching the configuration file. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from armory.cli.gateway.announcing import Announcer, Indexing, say_listening, say_reloaded
from armory.cli.gateway.event_loop import loop_factory
from armory.cli.gateway.signals import Signals
from armory.cli.gateway.watching import ConfigWatch
from armory.cli.itself import check_upstreams, descend
from armory.cli.options import config_option, notices_of
from armory.cli.output import counted
from armory.config import Loaded, find_config
from armory.domain.hosts import NO_ADDRESS, is_address
from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import ConfigError
from armory.logger import Logger
from armory.observability import standard_error
from armory.observability.deferred import log_later
from armory.runtime.checking import check_address, checked
from armory.runtime.memory.allocator import return_free_memory, return_large_buffers
from armory.runtime.memory.collecting import Collector
from armory.runtime.memory.huge_pages import use_huge_pages
from armory.runtime.opening import open_runtime
from armory.runtime.settings import log_settings, stdio_settings
from armory.tasks import spawn, start
from armory.tasks import stop as end
from armory.threads import lower_priority, wake_sooner
from armory.web.connections.descriptors import have_usual

if TYPE_CHECKING:
    from armory.runtime.reloading import Reloaded
    from armory.runtime.running import Runtime

_log = Logger(__name__)
Placed = Callable[[Loaded], Loaded]
_USER_VARIABLES = ("ARMORY_USER", "AGENT_COREX_USER_ID")


def _listenable(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not is_address(value):
        raise click.BadParameter(f"{NO_ADDRESS}; it is {value!r}")
    return value


class _Address(NamedTuple):
    """The address from the command line; None: as configured."""

    host: str | None = None
    port: int | None = None


@click.command()
@config_option
@click.option("--host", callback=_listenable, help="Address to bind; default: server.host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port to bind, 0: any that is free; default: server.port.",
)
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
@click.option("--json", "as_json", is_flag=True, help="Say where it listens in JSON.")
def serve(
    config: str | None, host: str | None, port: int | None, stdio: bool, as_json: bool
) -> None:
    """Run the gateway.

    SIGTERM and Ctrl-C end it after the calls in flight; SIGHUP, or a change of the file, puts a new
    configuration in force.
    """
    if stdio:
        _check_streams()
    signals = Signals()  # before the file is read, so that no later SIGHUP is lost
    path = find_config(config)
    descend(path, stdio=stdio)
    watched = ConfigWatch(path)
    bind_to = _Address(host, port)
    placed = partial(_with_address if stdio else _listening_at, bind_to)
    loaded = placed(checked(path))
    if not stdio:
        check_address(loaded)  # the file was checked with its own address
    with standard_error.written_by_thread():
        _run(loaded, watched, signals, placed, stdio=stdio, as_json=as_json)


def _check_streams() -> None:
    """Check that a client is connected.

    Raises:
        ConfigError: standard input or output was closed when the process began.
    """
    for name in ("stdin", "stdout"):
        if getattr(sys, f"__{name}__") is None:
            which = "input" if name == "stdin" else "output"
            raise ConfigError(
                f"standard {which} is closed; with --stdio the client is at both ends of it: "
                "start it from the client, or without --stdio"
            )


def _run(
    loaded: Loaded,
    watched: ConfigWatch,
    signals: Signals,
    placed: Placed,
    *,
    stdio: bool,
    as_json: bool,
) -> None:
    log_later(log_settings(loaded.config))
    have_usual()
    announcer = Announcer(log_settings(loaded.config))
    for line in notices_of(loaded):
        announcer.note("configuration", line)
    if stdio:
        served = _serve_stdio(loaded, watched, signals, placed, announcer)
    else:
        served = _serve(loaded, watched, signals, placed, announcer, as_json=as_json)
    with asyncio.Runner(loop_factory=loop_factory(loaded.config.server.event_loop)) as runner:
        runner.run(served)


def _with_address(bind_to: _Address, loaded: Loaded) -> Loaded:
    """The configuration with the address from the command line."""
    given = {key: value for key, value in bind_to._asdict().items() if value is not None}
    server = loaded.config.server.model_copy(update=given)
    config = loaded.config.model_copy(update={"server": server})
    return replace(loaded, config=config)


def _listening_at(bind_to: _Address, loaded: Loaded) -> Loaded:
    """The same, of a gateway that listens there.

    Raises:
        ConfigError: one of its upstreams is that very address.
    """
    return check_upstreams(_with_address(bind_to, loaded))


class _Running(NamedTuple):
    runtime: Runtime
    collector: Collector


@asynccontextmanager
async def _running(
    opening: AbstractAsyncContextManager[Runtime],
    watched: ConfigWatch,
    signals: Signals,
    placed: Placed,
    announcer: Announcer,
) -> AsyncGenerator[_Running | None]:
    """A gateway that has the process to itself: its signals, its file and its memory.

    None: it was told to stop before it was open.

    Args:
        opening: opens it.
        watched: the file of its configuration.
        signals: what they ask of it.
        placed: puts what the command line said into a configuration.
        announcer: announces reloads.
    """
    signals.take()
    return_large_buffers()
    _go_first()
    collector = Collector()
    async with AsyncExitStack() as stack:
        stack.enter_context(collector.in_charge())
        runtime = await signals.unless_stopped(stack.enter_async_context(opening))
        if runtime is None:
            yield None
            return
        tasks = [
            spawn(collector.run(), "collect garbage"),
            spawn(return_free_memory(), "give memory back"),
            spawn(_watch(watched, signals.reload), "watch the configuration"),
            spawn(_reload_on(signals.reload, runtime, watched, placed, announcer), "reload"),
        ]
        stack.push_async_callback(end, *tasks)
        yield _Running(runtime, collector)


async def _serve(
    loaded: Loaded,
    watched: ConfigWatch,
    signals: Signals,
    placed: Placed,
    announcer: Announcer,
    *,
    as_json: bool,
) -> None:
    server = loaded.config.server
    opening = open_runtime(
        loaded,
        address=(server.host, server.port),
        on_progress=Indexing(announcer).shown,
        on_listening=partial(say_listening, announcer, as_json),
    )
    async with _running(opening, watched, signals, placed, announcer) as running:
        if running is None:
            announcer.say("shutting_down", "shutting down before it was ready")
            return
        saying = spawn(_say_ready(running, announcer), "say when it is ready")
        try:
            await signals.stop.wait()
            if server.drain_delay_s:
                wait_s = server.drain_delay_s
                announcer.say("leaving", f"ends in {wait_s:g} s, requests may still come")
                await running.runtime.leave(wait_s)
        finally:
            await end(saying)
        announcer.say("shutting_down", "shutting down, calls in flight may finish")


def _go_first() -> None:
    """Give the event loop priority over threads that compute for it."""
    wake_sooner()
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(None, "armory", lower_priority)
    )


async def _serve_stdio(
    loaded: Loaded,
    watched: ConfigWatch,
    signals: Signals,
    placed: Placed,
    announcer: Announcer,
) -> None:
    principal = _user_of_environment(loaded, announcer)
    if loaded.config.observability.audit.to == "stdout":
        raise ConfigError(
            "standard output belongs to the client here; expected `database` or a file",
            path="observability.audit.to",
        )
    opening = _opened_for(principal, loaded)
    async with _running(opening, watched, signals, placed, announcer) as running:
        if running is None:
            return
        from armory.wire.stdio import serve_stdio  # the gateway has been loaded by then

        running.collector.freeze_start()
        served = serve_stdio(
            running.runtime.gateway,
            principal,
            settings=stdio_settings(loaded.config),
            observers=running.runtime.observers,
        )
        serving = start(served, "serve standard input")
        stopping = start(signals.stop.wait(), "wait for a signal")
        moving = spawn(asyncio.to_thread(use_huge_pages), "use huge pages")
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        await end(serving, stopping, moving)
        try:
            if not serving.cancelled():
                serving.result()
        finally:
            del serving  # whose error holds this frame by its trace


def _user_of_environment(loaded: Loaded, announcer: Announcer) -> Principal:
    """The principal that an environment variable names; anonymous if none does."""
    for variable in _USER_VARIABLES:
        if user := os.environ.get(variable):
            if not loaded.config.accounts.enabled:
                text = f"${variable}: no packs narrow what {user!r} sees: accounts.enabled is off"
                announcer.note("user_not_narrowed", text, user=user)
            return Principal(user, user=user, method="environment")
    return ANONYMOUS


@asynccontextmanager
async def _opened_for(principal: Principal, loaded: Loaded) -> AsyncGenerator[Runtime]:
    """A gateway without a port, ready for one client."""
    async with open_runtime(loaded) as runtime:
        await runtime.admit(principal)
        await runtime.ready()
        yield runtime


async def _say_ready(running: _Running, announcer: Announcer) -> None:
    from armory.runtime.readiness import readiness  # the gateway has been loaded by then

    runtime = running.runtime
    await runtime.ready()
    running.collector.freeze_start()
    status = runtime.supervisor.status()
    away = {key: found for key, found in status.items() if not found.up}
    awaited = [key for key, found in away.items() if not found.error]
    down = [key for key, found in away.items() if found.error]
    up = len(status) - len(awaited) - len(down)
    tools = len(runtime.gateway.view.catalog.tools)
    text = f"ready, {up} of {counted(len(status), 'upstream')}, {counted(tools, 'tool')}"
    announcer.say("ready", text, upstreams=len(status), up=up, tools=tools)
    found = readiness(runtime)
    if not found.ready:
        announcer.note("not_ready", f"/readyz says no for now: {found.missing[0]}")
    for what, keys in (("down", down), ("still starting", awaited)):
        if keys:
            text = f"{what}: {', '.join(keys)}; `armory status` says why"
            announcer.note("upstreams_missing", text, state=what, upstreams=keys)
    await asyncio.to_thread(use_huge_pages)


async def _watch(watched: ConfigWatch, reload: asyncio.Event) -> None:
    """Request a reload whenever the file has changed."""
    while True:
        await watched.changed()
        reload.set()


async def _reload_on(
    reload: asyncio.Event,
    runtime: Runtime,
    watched: ConfigWatch,
    placed: Placed,
    announcer: Announcer,
) -> None:
    def reloaded(report: Reloaded) -> None:
        watched.in_force()
        say_reloaded(path, announcer, report)

    path = runtime.loaded.path
    runtime.rereading.overridden = placed
    runtime.rereading.on_reading = watched.reading
    runtime.rereading.on_reloaded = reloaded
    while True:
        await reload.wait()
        reload.clear()
        if path is None:
            continue
        try:
            await runtime.rereading.read()
        except ConfigError as error:
            announcer.error("reload_refused", f"{error}\nThe configuration in force stays.")
        except Exception as error:  # noqa: BLE001 - the next change gets its turn
            message = f"{path} could not be put in force: {str(error) or type(error).__name__}"
            announcer.error("reload_failed", message)
            _log.error("reload_failed", exc_info=error)
