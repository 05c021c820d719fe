"""Binds the port before anything else starts.

Owns: binding, and what to say when that fails. Never serves anything.
"""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from armory.errors import ConfigError

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound port that does not accept connections yet.

    Attributes:
        host: as it was asked for.
        port: the bound one, never 0.
        sockets: one for each address that `host` stands for.
    """

    host: str
    port: int
    sockets: tuple[socket.socket, ...]

    def close(self) -> None:
        """Release the port."""
        for bound in self.sockets:
            bound.close()


def bind(host: str, port: int) -> Bound:
    """Bind a port.

    Args:
        host: address or name to bind; `::` stands for every address, of IPv4 as well.
        port: port to bind; 0: one that is free.

    Raises:
        ConfigError: it cannot be bound; says what to do.
    """
    asked = None if host == "::" else host
    try:
        found = socket.getaddrinfo(asked, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ConfigError(
            f"{host!r} is no address and no name that can be resolved; bind 127.0.0.1 or 0.0.0.0",
            path="server.host",
        ) from None
    refused: OSError | None = None
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        for family, _, _, _, address in found:
            try:
                made = _bound(opened, family, (address[0], port, *address[2:]))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise cannot_bind(error, host, port) from None
                refused = error  # a name can stand for an address of a kind that is not in use here
                continue
            port = int(made.getsockname()[1])
            sockets.append(made)
        if refused is not None and not sockets:
            raise cannot_bind(refused, host, port)
        opened.pop_all()
    return Bound(host, port, tuple(sockets))


def _bound(opened: ExitStack, family: int, address: tuple[object, ...]) -> socket.socket:
    made = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind(address)
    return made


def cannot_bind(error: OSError, host: str, port: int) -> ConfigError:
    """The error for a port that cannot be bound, with what to do."""
    if error.errno == errno.EADDRINUSE:
        message = (
            f"port {port} of {host} is taken by another program; choose another one "
            "(--port N, or --port 0 for any that is free)"
        )
    elif error.errno == errno.EACCES:
        message = f"port {port} needs more rights than Armory has; choose one above 1023"
    elif error.errno == errno.EADDRNOTAVAIL:
        message = f"{host} is no address of this machine; bind 127.0.0.1 or 0.0.0.0"
        return ConfigError(message, path="server.host")
    else:
        message = f"{host}:{port} cannot be bound: {error.strerror or error}"
    return ConfigError(message, path="server.port")
