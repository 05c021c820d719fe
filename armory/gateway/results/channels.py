"""The channel from an upstream to the client, which maps names on the way.

Owns: `ExposedChannel`, and when it is needed. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from armory.gateway.requests import ClientRequest
from armory.gateway.results.uri_rewriting import exposing_params, original_task
from armory.protocol.link import Answer, ClientChannel, Params
from armory.protocol.rawjson import members_or_none, pack
from armory.tasks import step_by_step


class ExposedChannel:
    """A `ClientChannel` toward one server of an aggregated endpoint.

    Attributes:
        capabilities: what the client declared.
    """

    __slots__ = ("_inner", "_server", "capabilities")

    def __init__(self, inner: ClientChannel, server: str) -> None:
        self._inner = inner
        self._server = server
        self.capabilities: Mapping[str, Any] = inner.capabilities

    @property
    def log_level(self) -> str | None:
        """The log level that the client wants, which a session may change."""
        return self._inner.log_level

    @property
    def progress_token(self) -> Raw | None:
        """The client's progress token; of the request that is open now, if it was asked
        something.
        """
        return self._inner.progress_token

    async def notify(self, method: str, params: Params) -> None:
        """Deliver a notification in the client's names."""
        exposed = await step_by_step(exposing_params(params, self._server))
        await self._inner.notify(method, exposed)

    async def ask(self, method: str, params: Params) -> Answer:
        """Put a question to the client in its names; the answer is in the server's.

        Raises:
            ClientGone: nobody is there to answer.
        """
        exposed = await step_by_step(exposing_params(params, self._server))
        answer = await self._inner.ask(method, exposed)
        said = members_or_none(answer.result)
        if not said or (original := original_task(said, self._server)) is said:
            return answer
        return Answer(result=pack(original))


def exposed_channel(request: ClientRequest, server: str) -> ClientChannel:
    """The channel from `server` to the client; unchanged on the transparent endpoint."""
    if request.endpoint.transparent:
        return request.client
    return ExposedChannel(request.client, server)
