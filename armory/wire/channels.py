"""The channel to a modern client while its request is served.

Owns: `RequestChannel`. Never imports a transport: what is said goes to a function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Raw

from armory.protocol import codes, jsonrpc
from armory.protocol.link import Answer, Params
from armory.protocol.methods import HANDSHAKE_ERA_ONLY, NEWS_FOR_LISTENERS

Write = Callable[[bytes], Awaitable[None]]


class RequestChannel:
    """The channel to a modern client behind one request.

    Args:
        write: puts one message on the way to the client, before the result.
        capabilities, log_level, progress_token: as the request declared them.
    """

    __slots__ = ("_write", "capabilities", "log_level", "progress_token")

    def __init__(
        self,
        write: Write,
        capabilities: Mapping[str, Any],
        log_level: str | None = None,
        progress_token: Raw | None = None,
    ) -> None:
        self._write = write
        self.capabilities = capabilities
        self.log_level = log_level
        self.progress_token = progress_token

    async def notify(self, method: str, params: Params) -> None:
        """Deliver a notification that belongs to the request."""
        if method not in NEWS_FOR_LISTENERS and method not in HANDSHAKE_ERA_ONLY:
            await self._write(jsonrpc.notification(method, params))

    async def ask(self, method: str, params: Params) -> Answer:
        """Refuses: a modern client is never asked directly; see `wire.interaction`."""
        del params
        message = f"{method} cannot be put to this client"
        return Answer(error=jsonrpc.error(codes.METHOD_NOT_FOUND, message))
