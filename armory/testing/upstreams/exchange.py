"""The request that a tool of a scripted upstream receives, and what it may answer with.

Owns: the request, the way back to the client, the server's own questions, and the state that tools
share. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

MODERN = "2026-07-28"
DRAFT = "2024-10-07"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PREFIX = "io.modelcontextprotocol/"

Json = dict[str, Any]


class Stop(Exception):
    """The tool has answered the request itself: nothing more is sent."""


class RpcFailure(Exception):
    """Answer with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Wire(Protocol):
    """How a tool communicates while its request lasts."""

    era: str
    capabilities: Mapping[str, Any]
    session: str

    async def send(self, message: Json) -> None:
        """Send one message on the request's stream."""
        ...

    async def send_bytes(self, data: bytes) -> None:
        """Send raw bytes as one frame."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request to the client; returns its whole response."""
        ...

    async def announce(self, method: str, params: Json) -> None:
        """Send a notification outside any request."""
        ...

    async def crash(self) -> None:
        """Crash in the middle of the request."""
        ...


class Questions:
    """The server's own requests that the client has not answered yet."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[Json]] = {}

    def ask(self, method: str, params: Json) -> tuple[Json, asyncio.Future[Json]]:
        """(the message to send, a future for the client's whole response)."""
        request_id = f"ask-{len(self._asked)}"
        answer = self._asked[request_id] = asyncio.get_running_loop().create_future()
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}, answer

    def answered(self, response: Json) -> None:
        """Handle a response; one without a request is ignored."""
        waiting = self._asked.get(str(response["id"]))
        if waiting is not None and not waiting.done():
            waiting.set_result(response)


@dataclass
class Request:
    """One request as a tool receives it."""

    id: Any
    params: Json
    wire: Wire

    @property
    def arguments(self) -> Json:
        """The tool's arguments."""
        return cast("Json", self.params.get("arguments") or {})

    @property
    def meta(self) -> Json:
        """`params._meta`."""
        return cast("Json", self.params.get("_meta") or {})


def notification(method: str, params: Json) -> Json:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def text(value: str, **more: Any) -> Json:
    """A tool result with one block of text."""
    return {"content": [{"type": "text", "text": value}], **more}


def definition(name: str, **more: Any) -> Json:
    """A tool definition with an unknown member."""
    return {
        "name": name,
        "description": f"Scripted: {name}",
        "inputSchema": {"type": "object", "properties": {}},
        "x-unknown": {"kept": True},
        **more,
    }


@dataclass
class ScriptState:
    """What the tools of a scripted upstream read and change.

    Attributes:
        tools: definitions, in order.
        received: every message that came, in order.
        cancelled: ids of the requests that were cancelled.
        subscribed: URIs that the client subscribed to.
        roots: what the client said they are, since it said that they changed (over stdio), or
            when the tool `roots_later` asked.
        asking: the question of that tool.
        release: lets the tool `wait` answer.
        started: set by the first tool call.
    """

    tools: list[Json] = field(default_factory=list[Json])
    received: list[Json] = field(default_factory=list[Json])
    cancelled: list[Any] = field(default_factory=list[Any])
    subscribed: set[str] = field(default_factory=set[str])
    roots: Json | None = None
    asking: asyncio.Task[None] | None = None
    release: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)


Tool = Callable[[ScriptState, Request], Awaitable[Json]]
