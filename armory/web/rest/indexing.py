"""Registering tools that no upstream offers, and removing them (administrators only).

Owns: the routes and the checks of a tool object. Never imports retrieval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from armory.domain.naming import is_server_key
from armory.errors import InvalidRequest
from armory.web.rest.problems import not_found
from armory.web.rest.routes import Reply, RestCall, Route
from armory.web.rest.shapes import GoneTools, IndexedTools, RemovedTools, ToolsToIndex

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""A NUL in JSON; in the pattern of a schema it has one more backslash."""


class IndexHandlers:
    """The handlers."""

    def routes(self) -> list[Route]:
        """The routes of the index."""
        return [
            Route("POST", "/v2/index_tools", self.index, _INDEX, IndexedTools, body=ToolsToIndex,
                  access="admin", description=_INDEX_TEXT),
            Route("DELETE", "/v2/index_tools", self.unindex, _UNINDEX, RemovedTools,
                  params=GoneTools, access="admin", problems=(404,)),
        ]  # fmt: skip

    async def index(self, call: RestCall) -> Reply:
        """`POST /v2/index_tools`."""
        given: ToolsToIndex = call.body
        by_server: dict[str, list[dict[str, Any]]] = {}
        for place, tool in enumerate(given.tools):
            _check_tool(tool, place)
            definition = dict(tool)
            by_server.setdefault(definition.pop("server", given.server), []).append(definition)
        indexed, skipped = await call.services.accounts.registry.add_all(
            by_server,
            category=given.category,
            tags=given.tags,
            skip_existing=given.skip_existing,
        )
        if indexed and call.services.index_settled is not None:
            await call.services.index_settled()
        return Reply({"indexed": indexed, "skipped": skipped})

    async def unindex(self, call: RestCall) -> Reply:
        """`DELETE /v2/index_tools`."""
        given: GoneTools = call.params
        registry = call.services.accounts.registry
        if (given.name is None) == (given.server is None):
            raise InvalidRequest("give either name or server", parameter="name")
        names = [given.name] if given.name else await registry.of_server(given.server or "")
        gone = await registry.remove(names)
        if not gone:
            raise not_found("indexed tool" if given.name else "server with indexed tools")
        return Reply({"removed": gone})


def _check_tool(tool: Mapping[str, Any], place: int) -> None:
    name = tool.get("name")
    where = f"tools.{place}"
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise InvalidRequest(
            f"{where}.name: expected 1 to 200 printable characters", parameter=f"{where}.name"
        )
    server = tool.get("server", "indexed")
    if not isinstance(server, str) or not is_server_key(server):
        raise InvalidRequest(
            f"{where}.server: expected lower-case words joined by hyphens",
            parameter=f"{where}.server",
        )
    for member, kind in (("description", str), ("inputSchema", dict), ("_meta", dict)):
        if member in tool and not isinstance(tool[member], kind):
            raise InvalidRequest(
                f"{where}.{member}: expected {'a string' if kind is str else 'an object'}",
                parameter=f"{where}.{member}",
            )
    if _NUL.search(msgspec.json.encode(tool)):  # half a character is no JSON here
        raise InvalidRequest(f"{where}: contains a NUL character", parameter=where)


_INDEX = "Add tools to the index that no upstream offers"
_UNINDEX = "Take tools out of the index again, one by its exposed name or all of a server"
_INDEX_TEXT = (
    "A tool may name its own `server`; the body's is for those that do not. "
    "They can be found over REST and cannot be called; MCP lists leave them out. A tool that an "
    "upstream offers under the same exposed name takes their place."
)
