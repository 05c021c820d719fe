"""What a scripted upstream answers, whatever its transport: honest tools, and every fault.

Owns: the tools, the lists, both eras' methods. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PREFIX = "io.modelcontextprotocol/"

Json = dict[str, Any]


class Stop(Exception):
    """The tool has taken the answer into its own hands: nothing more is sent for this request."""


class RpcFailure(Exception):
    """Answer with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Wire(Protocol):
    """How a tool talks back while its request lasts."""

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
        """Put a request to the client; its whole response."""
        ...

    async def announce(self, method: str, params: Json) -> None:
        """Send a notification outside any request."""
        ...

    async def crash(self) -> None:
        """Go away in the middle."""
        ...


@dataclass
class Request:
    """One request as a tool sees it."""

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
    """A tool definition with a field that nobody knows."""
    return {
        "name": name,
        "description": f"Scripted: {name}",
        "inputSchema": {"type": "object", "properties": {}},
        "x-unknown": {"kept": True},
        **more,
    }


Tool = Callable[["Script", Request], Awaitable[Json]]


@dataclass
class Script:
    """Everything that one scripted upstream offers; change it while it runs.

    Attributes:
        tools: definitions, in order; all of `script_tools` unless given.
        behaviour: what the tools do, by name.
        page_size: entries per page, None: one page.
        broken_lists: list methods that answer with an error.
        endless: whether `tools/list` always has a next page.
        discover_code: the error code that the modern probe gets from a legacy server.
        received: every message that came, in order.
        roots: what the client said they are, since it said that they changed (over stdio).
        release: lets the tool `wait` answer.
    """

    name: str = "scripted"
    tools: list[Json] = field(default_factory=list[Json])
    prompts: list[Json] = field(default_factory=lambda: [{"name": "greet", "x": 1}])
    resources: list[Json] = field(default_factory=lambda: [{"uri": "mem://one", "name": "one"}])
    templates: list[Json] = field(
        default_factory=lambda: [{"uriTemplate": "mem://{id}", "name": "any"}]
    )
    page_size: int | None = None
    broken_lists: set[str] = field(default_factory=set[str])
    endless: bool = False
    capabilities: Json = field(
        default_factory=lambda: {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "logging": {},
        }
    )
    discover_code: int = -32601
    revision: str = LEGACY[-1]
    received: list[Json] = field(default_factory=list[Json])
    cancelled: list[Any] = field(default_factory=list[Any])
    subscribed: set[str] = field(default_factory=set[str])
    roots: Json | None = None
    release: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        from armory.testing.script_tools import TOOLS

        self.behaviour: dict[str, Tool] = dict(TOOLS)
        self.tools = self.tools or [definition(name) for name in TOOLS]

    async def answer(self, message: Json, wire: Wire) -> Json | None:
        """The response to a request; None when a tool has answered by itself."""
        try:
            result = await self._result(message, wire)
        except RpcFailure as failure:
            return {"jsonrpc": "2.0", "id": message["id"], "error": failure.error}
        except Stop:
            return None
        if wire.era == "modern":
            result = {"resultType": "complete", **result}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    async def _result(self, message: Json, wire: Wire) -> Json:
        method = cast("str", message["method"])
        params = cast("Json", message.get("params") or {})
        if method == "tools/call":
            tool = self.behaviour.get(params["name"])
            if tool is None:
                raise RpcFailure(-32602, f"Unknown tool: {params['name']}")
            if params["name"] != "report":  # asking about the calls is none of them
                self.started.set()
            return await tool(self, Request(message["id"], params, wire))
        if method in self.broken_lists:
            raise RpcFailure(-32603, "broken on purpose")
        if method in LISTS:
            return self._page(method, params, wire.era)
        if method == "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "read"}]}
        if method == "prompts/get":
            return {"messages": []}
        if wire.era == "modern":
            return self._modern(method)
        return self._legacy(method, params)

    def _modern(self, method: str) -> Json:
        if method == "server/discover":
            return {
                "supportedVersions": [MODERN],
                "capabilities": self.capabilities,
                "instructions": "scripted instructions",
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {f"{PREFIX}serverInfo": {"name": self.name, "version": "1"}},
            }
        raise RpcFailure(-32601, "Method not found")

    def _legacy(self, method: str, params: Json) -> Json:
        if method == "initialize":
            offered = params["protocolVersion"]
            return {
                "protocolVersion": min(offered, self.revision),
                "capabilities": self.capabilities,
                "serverInfo": {"name": self.name, "version": "1"},
                "instructions": "scripted instructions",
            }
        if method == "resources/subscribe":
            if params["uri"] == "mem://refused":
                raise RpcFailure(-32002, "no such resource")
            self.subscribed.add(params["uri"])
            return {}
        if method == "resources/unsubscribe":
            self.subscribed.discard(params["uri"])
            return {}
        if method in ("ping", "logging/setLevel"):
            return {}
        code = self.discover_code if method == "server/discover" else -32601
        raise RpcFailure(code, "Method not found")

    def _page(self, method: str, params: Json, era: str) -> Json:
        member, entries = LISTS[method], cast("list[Json]", getattr(self, LISTS[method]))
        key = "resourceTemplates" if member == "templates" else member
        start = int(params.get("cursor") or 0)
        size = self.page_size or max(1, len(entries))
        page: Json = {key: entries[start : start + size]}
        if start + size < len(entries):
            page["nextCursor"] = str(start + size)
        elif self.endless:
            page["nextCursor"] = "0"
        if era == "modern":
            page |= {"ttlMs": 5_000, "cacheScope": "public"}
        return page


LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "templates",
}
