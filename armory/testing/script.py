"""What a scripted upstream answers, whatever its transport: honest tools, and every fault.

Owns: the tools, the lists, both eras' methods. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import os
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


Tool = Callable[[Request], Awaitable[Json]]


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


@dataclass
class Script:
    """Everything that one scripted upstream offers; change it while it runs.

    Attributes:
        tools: definitions, in order.
        page_size: entries per page, None: one page.
        broken_lists: list methods that answer with an error.
        endless: whether `tools/list` always has a next page.
        discover_code: the error code that the modern probe gets from a legacy server.
        received: every message that came, in order.
        release: lets the tool `wait` answer.
    """

    name: str = "scripted"
    tools: list[Json] = field(default_factory=lambda: [definition(name) for name in TOOLS])
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
    release: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

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
            tool = TOOLS.get(params["name"])
            if tool is None:
                raise RpcFailure(-32602, f"Unknown tool: {params['name']}")
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

# --- the tools


async def _echo(_script: Script, request: Request) -> Json:
    """Everything back, in every kind of block, with fields that nobody knows."""
    return {
        "content": [
            {"type": "text", "text": str(request.arguments.get("text", "")), "x": 1},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "unheard-of", "payload": [1, 2.50, None]},
        ],
        "structuredContent": {"arguments": request.arguments, "meta": request.meta},
        "isError": False,
        "x-unknown": 12345678901234567890123,
    }


async def _who(_script: Script, request: Request) -> Json:
    """Which process, session and environment serve this."""
    return text(
        "who",
        structuredContent={
            "pid": os.getpid(),
            "session": request.wire.session,
            "env": dict(os.environ),
            "capabilities": dict(request.wire.capabilities),
        },
    )


async def _fail(_script: Script, _request: Request) -> Json:
    return text("it went wrong", isError=True)


async def _error(_script: Script, _request: Request) -> Json:
    raise RpcFailure(-32050, "own error", {"detail": [1]})


async def _wait(script: Script, _request: Request) -> Json:
    await script.release.wait()
    return text("released")


async def _hang(_script: Script, _request: Request) -> Json:
    await asyncio.Event().wait()
    raise Stop


async def _progress(_script: Script, request: Request) -> Json:
    token = request.meta.get("progressToken")
    if token is not None:
        for step in range(3):
            params = {"progressToken": token, "progress": step, "total": 3}
            await request.wire.send(notification("notifications/progress", params))
    return text("done")


async def _log(_script: Script, request: Request) -> Json:
    for level in ("debug", "info", "error"):
        params = {"level": level, "data": f"at {level}"}
        await request.wire.send(notification("notifications/message", params))
    return text("logged")


async def _elicit(_script: Script, request: Request) -> Json:
    params = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
    return text("asked", structuredContent=await request.wire.ask("elicitation/create", params))


async def _sample(_script: Script, request: Request) -> Json:
    params: Json = {"messages": [], "maxTokens": 5}
    return text("asked", structuredContent=await request.wire.ask("sampling/createMessage", params))


async def _roots(_script: Script, request: Request) -> Json:
    return text("asked", structuredContent=await request.wire.ask("roots/list", {}))


async def _input(_script: Script, request: Request) -> Json:
    """Multi round trip: ask once, then answer."""
    if "inputResponses" in request.params:
        return text("thanks", structuredContent={"got": request.params["inputResponses"]})
    return {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": {"message": "?"}}},
        "requestState": "opaque",
    }


async def _crash(_script: Script, request: Request) -> Json:
    await request.wire.crash()
    raise Stop


async def _garbage(_script: Script, request: Request) -> Json:
    await request.wire.send_bytes(b"this is { not json")
    return text("after garbage")


async def _only_garbage(_script: Script, request: Request) -> Json:
    await request.wire.send_bytes(b'{"jsonrpc":"2.0","id":')
    raise Stop


async def _twice(_script: Script, request: Request) -> Json:
    answer: Json = {"jsonrpc": "2.0", "id": request.id, "result": text("first")}
    await request.wire.send(answer)
    await request.wire.send(answer)
    raise Stop


async def _big(_script: Script, request: Request) -> Json:
    return text("x" * int(request.arguments.get("bytes", 1_000_000)))


async def _stranger(_script: Script, request: Request) -> Json:
    await request.wire.send({"jsonrpc": "2.0", "id": 987654, "result": {}})
    return text("own answer")


async def _report(script: Script, _request: Request) -> Json:
    """What has come so far: the methods, what was cancelled, what is subscribed."""
    return text(
        "report",
        structuredContent={
            "methods": [message.get("method") for message in script.received],
            "cancelled": list(script.cancelled),
            "subscribed": sorted(script.subscribed),
            "started": script.started.is_set(),
        },
    )


async def _free(script: Script, _request: Request) -> Json:
    """Let the tool `wait` answer."""
    script.release.set()
    return text("freed")


async def _grow(script: Script, request: Request) -> Json:
    """One more tool, and an announcement."""
    script.tools.append(definition(f"grown{len(script.tools)}"))
    await request.wire.announce("notifications/tools/list_changed", {})
    return text("grown")


async def _touch(_script: Script, request: Request) -> Json:
    """Say that a resource has changed."""
    uri = request.arguments.get("uri", "mem://one")
    await request.wire.announce("notifications/resources/updated", {"uri": uri})
    return text("touched")


def notification(method: str, params: Json) -> Json:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


TOOLS: dict[str, Callable[[Script, Request], Awaitable[Json]]] = {
    "echo": _echo,
    "who": _who,
    "fail": _fail,
    "error": _error,
    "wait": _wait,
    "hang": _hang,
    "progress": _progress,
    "log": _log,
    "elicit": _elicit,
    "sample": _sample,
    "roots": _roots,
    "input": _input,
    "crash": _crash,
    "garbage": _garbage,
    "only_garbage": _only_garbage,
    "twice": _twice,
    "big": _big,
    "stranger": _stranger,
    "report": _report,
    "free": _free,
    "grow": _grow,
    "touch": _touch,
}
