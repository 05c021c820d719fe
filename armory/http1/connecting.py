"""Opens TCP connections by host name.

Owns: the lookup, happy eyeballs, TCP keepalive, and the error message. Never imports another module
of this room.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence

from aiohappyeyeballs import AddrInfoType, start_connection

_RACE_S = 0.25
"""Seconds after which the next address is tried as well (RFC 8305)."""
_PROBES = {
    # idle seconds before the first probe (macOS, others), seconds between probes, failed probes
    "TCP_KEEPALIVE": 30,
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
}
"""TCP keepalive. Without it an event stream would wait for ever on a connection whose other end
vanished or that a firewall or load balancer forgot. A minute without acknowledgement ends it, and
the probes keep it alive in what lies between.
"""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""What OpenSSL calls an answer that is no TLS at all, by its version and the answer."""


async def addresses_of(host: str, port: int) -> Sequence[AddrInfoType]:
    """The addresses of a host name, as `getaddrinfo` returns them.

    Raises:
        OSError: there is no such name, or it cannot be looked up.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if "%" not in host:
        return found
    # uvloop forgets the interface, unless the text of the address has it
    return [(*each[:4], (host, *each[4][1:])) for each in found]


async def connected(addresses: Sequence[AddrInfoType]) -> socket.socket:
    """A socket connected to the first address that answers.

    Raises:
        OSError: none can be connected to.
    """
    try:
        return await start_connection(
            addresses, happy_eyeballs_delay=_RACE_S, socket_factory=probed_socket
        )
    except (OSError, RuntimeError) as error:
        raise error.with_traceback(None) from None  # its frame there holds the error


def probed_socket(address: AddrInfoType) -> socket.socket:
    """A socket with TCP keepalive for one address from `getaddrinfo`."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def reason(error: OSError) -> str:
    """Why connecting failed, without the address that was tried."""
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "no TLS is spoken there; is it http:// instead of https://?"
    if error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error)
