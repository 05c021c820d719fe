"""What a scripted upstream answers, whatever its transport: honest tools, and every fault.

Owns: the lists and both eras' methods. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from armory.testing.upstreams.exchange import (
    LEGACY,
    MODERN,
    PREFIX,
    Json,
    Request,
    RpcFailure,
    ScriptState,
    Stop,
    Tool,
    Wire,
    definition,
)
from armory.testing.upstreams.tools import TOOLS


@dataclass
class Script(ScriptState):
    """Everything that one scripted upstream offers; change it while it runs.

    Attributes:
        tools: definitions, in order; all of `tools.TOOLS` unless given.
        behaviour: what the tools do, by name.
        page_size: entries per page, None: one page.
        broken_lists: list methods that answer with an error.
        silent: methods that are never answered.
        endless: whether `tools/list` always has a next page.
        discover_code: the error code that the modern probe gets from a legacy server.
        needs: tools that are listed in a session alone, to clients that declare so much: the names
            of members, one within the other, with spaces between.
        needed_always: whether requests of 2026-07-28 are listed by that as well.
    """

    name: str = "scripted"
    prompts: list[Json] = field(default_factory=lambda: [{"name": "greet", "x": 1}])
    resources: list[Json] = field(default_factory=lambda: [{"uri": "mem://one", "name": "one"}])
    templates: list[Json] = field(
        default_factory=lambda: [{"uriTemplate": "mem://{id}", "name": "any"}]
    )
    page_size: int | None = None
    broken_lists: set[str] = field(default_factory=set[str])
    silent: set[str] = field(default_factory=set[str])
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
    needs: dict[str, str] = field(default_factory=dict[str, str])
    needed_always: bool = False

    def __post_init__(self) -> None:
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
        if method in self.silent:
            await asyncio.Event().wait()
        if method in self.broken_lists:
            raise RpcFailure(-32603, "broken on purpose")
        if method in LISTS:
            return self._page(method, params, wire)
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

    def _page(self, method: str, params: Json, wire: Wire) -> Json:
        member, entries = LISTS[method], cast("list[Json]", getattr(self, LISTS[method]))
        if member == "tools" and (self.needed_always or wire.era != "modern"):
            needs, declared = self.needs, wire.capabilities
            entries = [e for e in entries if _declares(declared, needs.get(e["name"], ""))]
        key = "resourceTemplates" if member == "templates" else member
        start = int(params.get("cursor") or 0)
        size = self.page_size or max(1, len(entries))
        page: Json = {key: entries[start : start + size]}
        if start + size < len(entries):
            page["nextCursor"] = str(start + size)
        elif self.endless:
            page["nextCursor"] = "0"
        if wire.era == "modern":
            page |= {"ttlMs": 5_000, "cacheScope": "public"}
        return page


def _declares(declared: Mapping[str, Any], needed: str) -> bool:
    for name in needed.split():
        if name not in declared:
            return False
        declared = declared[name]
    return True


LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "templates",
}
