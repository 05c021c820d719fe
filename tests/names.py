"""Names of hosts that no resolver is asked for.

Owns: `nobody_knows`. What a resolver says of a name that there is not, and how soon, is up to the
network that the tests run in.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest


def nobody_knows(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the present event loop find no such name; it looks up all others as ever."""
    loop = asyncio.get_running_loop()
    usual = loop.getaddrinfo

    async def getaddrinfo(host: Any, *args: Any, **more: Any) -> list[Any]:
        if host == name:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await usual(host, *args, **more)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
