"""SSRF protection: which addresses may be requested for URLs that others chose.

Owns: what a public address is, and when one is required. Never sends anything.

The check is made on the address of the very socket that is about to be connected: a name that
resolves to something else a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from yarl import URL

from armory.domain.uris import readable

_NAT64 = IPv6Network("64:ff9b::/96")
_LOOK_UP_S = 2.0
"""How long a name is looked up that a proxy will look up, too: where only a proxy knows the names
of outside, each look-up may take its whole time limit."""


class NotPublic(OSError):
    """The address is not public, and the URL was chosen by somebody else."""

    def __init__(self) -> None:
        super().__init__("not a public address")


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet; embedded IPv4 addresses are
    checked as well.
    """
    try:
        found = _bare(ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    local = isinstance(found, IPv6Address) and found.is_site_local
    return found.is_global and not (found.is_multicast or found.is_reserved or local)


def _bare(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address embeds."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def public_socket(about: tuple[Any, ...]) -> socket.socket:
    """A socket for a `getaddrinfo` result; for use as aiohttp's `socket_factory`.

    Raises:
        NotPublic: it would be connected to an address that is not public.
    """
    family, kind, protocol, _, address = about
    if not is_public(address[0]):
        raise NotPublic
    return socket.socket(family, kind, protocol)


async def leads_inside(url: str) -> bool:
    """Whether the host of a URL has a non-public address, as far as this machine can tell: a proxy
    that makes the connection may know other names.
    """
    addresses: list[str] = []
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LOOK_UP_S):
            addresses = await _addresses(_host(url) or "")
    return not all(map(is_public, addresses))


async def must_be_public(url: str, named: Sequence[str]) -> bool:
    """Whether a URL may only be requested at a public address.

    Not so where the configuration names its host, or where everything that the configuration names
    is internal: internal servers may name internal ones.

    Args:
        url: about to be asked.
        named: URLs that the configuration names.
    """
    hosts = [host for host in (_host(known) for known in named) if host]
    if _host(url) in hosts:
        return False
    for host in hosts:
        if not await _is_inside(host):
            return True
    return not hosts


def _host(url: str) -> str | None:
    try:
        return URL(readable(url)).raw_host
    except ValueError:
        return None


async def _is_inside(host: str) -> bool:
    """Whether no address of a host is public."""
    try:
        return not any(map(is_public, await _addresses(host)))
    except OSError:
        return False


async def _addresses(host: str) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
