"""The ports of a gateway and its local access note, opened before everything else.

Owns: opening them in order, and closing them before what is behind them. Imports no room that
answers a request.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from errno import ENOTDIR

from armory.config import Loaded
from armory.errors import ConfigError
from armory.logger import Logger
from armory.runtime.entry.local_access import Note, operator_token, running_at
from armory.runtime.settings import base_path, listen_settings
from armory.security.authentication import StaticToken
from armory.storage.private import private_folder
from armory.web.app import Listening
from armory.web.binding import Bound, bind

_log = Logger(__name__)
_METRICS_PORT = "server.metrics.port"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The open ports, and the note about them.

    Attributes:
        listening: the port of clients.
        metrics: the port of health and metrics; None where they have none of their own.
        operator: the token that the note holds.
        note: the note.
    """

    listening: Listening
    metrics: Listening | None
    operator: StaticToken
    note: Note

    async def close(self) -> None:
        """Close the client port once requests in flight have ended. Until then the note says that
        the gateway is shutting down.
        """
        await asyncio.to_thread(self.note.end)
        try:
            await self.listening.close()
        finally:
            await asyncio.to_thread(self.note.remove)


async def open_listeners(
    loaded: Loaded, address: tuple[str, int], stack: AsyncExitStack
) -> Listeners:
    """Bind the ports, before anything else is started, and accept connections.

    Args:
        loaded: the configuration.
        address: (host, port) of the port of clients.
        stack: closes at last what is open then.

    Raises:
        ConfigError: a port cannot be bound.
        OSError: `ARMORY_HOME` is no folder.
    """
    server = loaded.config.server
    settings, prefix = listen_settings(server), base_path(loaded.config)
    bound = _bind(loaded, *address)
    stack.callback(bound.close)
    bound_metrics = _bind_metrics(loaded, bound.host)
    metrics: Listening | None = None
    if bound_metrics is not None:
        stack.callback(bound_metrics.close)
        metrics = Listening(bound_metrics, replace(settings, drain_timeout_s=1.0))
        stack.push_async_callback(metrics.close)
        await metrics.begin()
        _log.info("metrics_listening", host=metrics.host, port=metrics.port)
    private_folder(loaded.home)
    if any(place.is_file() for place in (loaded.home, *loaded.home.parents)):
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(loaded.home))
    listening = Listening(bound, settings, prefix, server.limits.body_bytes)
    named = () if "*" in server.allowed_hosts else server.allowed_hosts
    operator = operator_token()
    note = Note(loaded.home, listening.url, operator.token, next(iter(named), ""))
    listeners = Listeners(listening, metrics, operator, note)
    stack.push_async_callback(listeners.close)
    await listening.begin()
    note.leave()
    return listeners


def _bind(loaded: Loaded, host: str, port: int) -> Bound:
    """Bind the client port.

    Raises:
        ConfigError: it cannot be bound, perhaps since this has been started already.
    """
    try:
        return bind(host, port)
    except ConfigError:
        if own := running_at(loaded.home, port):
            raise ConfigError(
                f"port {port} of {host} is taken by a gateway of yours (pid {own.pid}), which "
                "takes over a changed file by itself; end it, or choose another port (--port N, "
                "or --port 0 for any that is free)",
                path="server.port",
            ) from None
        raise


def _bind_metrics(loaded: Loaded, host: str) -> Bound | None:
    """Bind the metrics port; None where metrics have no port of their own.

    Raises:
        ConfigError: it cannot be bound.
    """
    port = loaded.config.server.metrics.port
    if port is None or not loaded.config.observability.metrics:
        return None
    try:
        return bind(host, port)
    except ConfigError as error:
        said = error.message.removeprefix(f"{error.path}: ")
        raise ConfigError(said, path=_METRICS_PORT) from None
