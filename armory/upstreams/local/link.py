"""The base of links that answer requests themselves, without an MCP server behind them.

Owns: `LocalLink` and the form of its answers. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from armory.protocol import jsonrpc
from armory.protocol.link import Call, ClientChannel, Params, Reply, Sent
from armory.protocol.rawjson import encode
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Identity, LinkContext


class LocalLink(BaseLink):
    """A link without an MCP server behind it, so there is no session to lose.

    Args:
        context: as every link's.
        identity: what it says of itself.
    """

    stateless = True

    def __init__(self, context: LinkContext, identity: Identity) -> None:
        super().__init__(context)
        self._closing = False
        self.adopt(identity)

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or what it serves is gone."""
        return self._closing

    async def notify(self, method: str, params: Params) -> None:
        """Does nothing: there is no server to notify."""

    async def roots_changed(self, client: ClientChannel, params: Params) -> None:
        """Does nothing: no server asks for roots."""

    async def close(self) -> None:
        """Does nothing: nothing is open."""
        self._closing = True

    def note_sent(self, call: Call) -> None:
        """Report to the call's meter that it is answered here."""
        if call.hop is not None:
            call.hop = self.hop()
            if call.sent is not None:
                call.sent = Sent(0)


def complete(result: Mapping[str, Any]) -> Raw:
    """A result of the modern era, as JSON."""
    return Raw(encode({"resultType": "complete", **result}))


def result_reply(result: Mapping[str, Any]) -> Reply:
    """A reply with a result."""
    return Reply(result=complete(result), era="modern")


def error_reply(code: int, message: str) -> Reply:
    """A reply with an error."""
    return Reply(error=jsonrpc.error(code, message), era="modern")
