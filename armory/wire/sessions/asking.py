"""Questions of upstreams to one legacy client: requests on its streams, and its responses.

Owns: `OpenQuestions`. Never imports a session or a web framework.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from armory.protocol import jsonrpc
from armory.protocol.jsonrpc import Message
from armory.protocol.link import HEARS_PROGRESS, Answer, ClientGone, Params, cancelled_params
from armory.protocol.meta import PROGRESS_TOKEN
from armory.protocol.methods import CANCELLED
from armory.protocol.rawjson import NULL, encode, members_or_none, pack
from armory.wire.streams import Outlet

ASK_TIMEOUT_S = 600.0
_SILENT = "the client answers nothing any more"


class Reader(Protocol):
    """A client that has streams."""

    def read_now(self, wanted: Outlet) -> Outlet:
        """The stream that reaches the client: `wanted`, or the one that it reads instead."""
        ...


class OpenQuestions:
    """The open questions to one client.

    Args:
        client: whom; it owns these, so that no cycle keeps it.
    """

    __slots__ = ("_client", "_count", "_hung_up", "_open", "_progress")

    def __init__(self, client: Reader) -> None:
        self._client: Reader = weakref.proxy(client)
        self._open: dict[bytes, asyncio.Future[Answer]] = {}
        self._progress: dict[bytes, Callable[[Params], None]] = {}
        self._count = 0
        self._hung_up = False

    async def ask(self, stream: Outlet, method: str, params: Params) -> Answer:
        """Put a request to the client on one of its streams, and wait for its response.

        Raises:
            ClientGone: the session ended, or nothing came in ten minutes.
        """
        if self._hung_up:
            raise ClientGone(_SILENT)
        self._count += 1
        id = f"armory-{self._count}"
        key = encode(id)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = future
        hears = HEARS_PROGRESS.get()
        if hears is not None:  # under a token of our own: two upstreams may use the same
            self._progress[key] = hears
            params = _with_token(params, Raw(key))
        stream = self._client.read_now(stream)
        stream.put(jsonrpc.request(id, method, params))
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                return await future
        except TimeoutError:
            late = f"there was no answer within {ASK_TIMEOUT_S:g} s"
            self._withdraw(stream, cancelled_params(Raw(key), late))
            raise ClientGone("the client did not answer") from None
        except asyncio.CancelledError:
            self._withdraw(stream, cancelled_params(Raw(key), "the call ended"))
            raise
        finally:
            self._open.pop(key, None)
            self._progress.pop(key, None)
            del future  # whose error holds this frame by its trace

    def _withdraw(self, stream: Outlet, params: Params) -> None:
        """Cancel a question: on the stream where it was put, or the one that the client
        reads now.
        """
        self._client.read_now(stream).put(jsonrpc.notification(CANCELLED, params))

    def answered(self, message: Message) -> bool:
        """Handle a response of the client; returns False when nothing was asked."""
        future = self._open.get(message.key)
        if future is None or future.done():
            return False
        if isinstance(message.result, Raw):
            future.set_result(Answer(result=message.result))
        elif isinstance(message.error, Raw):
            future.set_result(Answer(error=message.error))
        return True

    def progressed(self, params: Params) -> None:
        """Forward the client's progress on a question."""
        hears = self._progress.get(bytes(memoryview(params.get(PROGRESS_TOKEN, NULL))))
        if hears is not None:
            hears(params)

    def hang_up(self) -> None:
        """The client answers nothing any more: fail its open questions."""
        self._hung_up = True
        for future in list(self._open.values()):
            if not future.done():
                future.set_exception(ClientGone(_SILENT))
                future.exception()


def _with_token(params: Params, token: Raw) -> Params:
    meta = members_or_none(params.get("_meta")) or {}
    return {**params, "_meta": pack({**meta, PROGRESS_TOKEN: token})}
