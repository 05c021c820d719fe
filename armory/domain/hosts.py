"""Host names and IP addresses.

Owns: which of them only this machine reaches, and what could be none. Does no I/O.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

_NAME = re.compile(r"[^\s/:@?#*\[\]]+")
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
"""What this machine is called in URLs and Host headers, without brackets."""
NO_ADDRESS = (
    "expected an address or a name alone, as 127.0.0.1, 0.0.0.0 or ::1, without http://, brackets "
    "and the port"
)


def is_address(host: str) -> bool:
    """Whether a text has the form of a host name or IP address, without a port."""
    try:
        return bool(ip_address(host))
    except ValueError:
        return _NAME.fullmatch(host) is not None


def is_loopback(host: str) -> bool:
    """Whether a bind address is reachable from this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
