"""`tools/manifest` and `tools/describe` (draft SEP-2636): digests of definitions, and definitions
by name.

Owns: both methods, and the digests. What they index is what `tools/list` shows for the same
request, and nothing else; what is described may stand in a group, too. Only where
`server.experimental` has `manifest`. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from cachetools import LRUCache
from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.gateway.lists.canonical import canonical
from armory.gateway.lists.groups import negotiated
from armory.gateway.lists.own_endpoint import definitions_seen, manifest_seen
from armory.gateway.settings import MANIFEST
from armory.gateway.views.definitions import Form
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError, method_not_found
from armory.protocol.link import Reply
from armory.protocol.rawjson import encode, need_value

INDEX = "tools/manifest"
DESCRIBE = "tools/describe"
MAX_NAMES = 100
_KEPT_BYTES = 16 << 20
"""Largest size of the cached entries: a title may have half a million characters."""
_PLACE_BYTES = 500
"""What an entry takes beside its own bytes."""
_AT_ONCE = 50
"""Digests made on the event loop; more are made in a thread."""
_CACHED = ("ttlMs", "cacheScope")
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_definitions = msgspec.json.Decoder(list[Raw]).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
Lists = Callable[[RequestContext, Mapping[str, Raw]], Awaitable[Reply]]
PassOn = Callable[[str, RequestContext, dict[str, Raw]], Awaitable[Reply]]


class Manifest:
    """Answers `tools/manifest` and `tools/describe`.

    Args:
        lists: answers `tools/list`.
        pass_on: sends a request on to the upstream whose own endpoint it came to.
    """

    def __init__(self, lists: Lists, pass_on: PassOn) -> None:
        self._lists = lists
        self._pass_on = pass_on
        self._entries: LRUCache[bytes, tuple[str, bytes]] = LRUCache(_KEPT_BYTES, _size)

    async def index(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `tools/manifest`: the tools of `tools/list` by name and digest.

        Raises:
            RpcError: manifests are not served; what `tools/list` raises.
        """
        if context.endpoint.transparent:
            return await manifest_seen(context, await self._pass_on(INDEX, context, params))
        listed, result, tools = await self._listed(context, INDEX, params)
        entries = [entry for _, entry in await self._entries_of(tools)]
        result["entries"] = Raw(b"[" + b",".join(entries) + b"]")
        return Reply(Raw(encode(result)), era=listed.era)

    async def describe(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `tools/describe`: the definitions of the named tools of `tools/list`, or of groups
        where the client gets its tools by them.

        Raises:
            RpcError: manifests are not served; none, too many or unknown names.
        """
        if context.endpoint.transparent:
            names = _texts(params.get("names"))
            _refuse([name for name in names if context.view.tool(context, name) is None])
            return await definitions_seen(context, await self._pass_on(DESCRIBE, context, params))
        _need_served(context, DESCRIBE)
        names = _names(params.get("names"))
        asked = {name: said for name, said in params.items() if name != "names"}
        listed, result, tools = await self._listed(context, DESCRIBE, asked)
        entries = await self._entries_of(tools)
        found = {name: tool for (name, _), tool in zip(entries, tools, strict=True)}
        if negotiated(context):
            found = {**_scoped(context, names), **found}
        _refuse([name for name in names if name not in found])
        for member in _CACHED:
            result.pop(member, None)
        result["tools"] = Raw(encode([found[name] for name in names]))
        return Reply(Raw(encode(result)), era=listed.era)

    async def _listed(
        self, context: RequestContext, method: str, params: Mapping[str, Raw]
    ) -> tuple[Reply, dict[str, Raw], list[Raw]]:
        """(the answer to `tools/list`, its other members, its tools)."""
        _need_served(context, method)
        listed = await self._lists(context, params)
        assert listed.result is not None
        result = _members(listed.result)
        return listed, result, _definitions(result.pop("tools"))

    async def _entries_of(self, tools: Iterable[Raw]) -> list[tuple[str, bytes]]:
        """(name, entry) of each definition."""
        keyed = [(hashlib.sha256(tool).digest(), tool) for tool in tools]
        missing = {key: tool for key, tool in keyed if key not in self._entries}
        known = {key: self._entries[key] for key, _ in keyed if key not in missing}
        many = len(missing) > _AT_ONCE
        made = await asyncio.to_thread(_made, missing) if many else _made(missing)
        self._entries.update(made)
        known |= made
        return [known[key] for key, _ in keyed]


def _size(entry: tuple[str, bytes]) -> int:
    name, data = entry
    return _PLACE_BYTES + sys.getsizeof(name) + len(data)


def _scoped(context: RequestContext, names: Iterable[str]) -> dict[str, Raw]:
    """The definitions of those tools that the caller may see, as `groups/get` shows them."""
    view, form = context.view, Form(context.era)
    visible = view.visible(context).tools.names
    return {name: Raw(view.listed.tool(name, form)) for name in names if name in visible}


def _made(missing: Mapping[bytes, Raw]) -> dict[bytes, tuple[str, bytes]]:
    return {key: _entry(tool) for key, tool in missing.items()}


def _entry(tool: Raw) -> tuple[str, bytes]:
    """(name, `ToolManifestEntry`) of a definition."""
    definition = _object(tool)
    text = canonical(definition).encode("utf-8", "surrogatepass")
    entry: dict[str, Any] = {"name": definition["name"]}
    if isinstance(definition.get("title"), str):
        entry["title"] = definition["title"]
    entry["digest"] = f"sha256:{hashlib.sha256(text).hexdigest()}"
    if isinstance(definition.get("annotations"), Mapping):
        entry["annotations"] = definition["annotations"]
    return definition["name"], encode(entry)


def _refuse(names: Iterable[str]) -> None:
    """Refuse unknown names of tools; hidden tools look like unknown ones.

    Raises:
        RpcError: there are unknown names.
    """
    unknown = [*dict.fromkeys(names)]
    if unknown:
        shown = ", ".join(name[:100] for name in unknown[:5])
        raise RpcError(INVALID_PARAMS, f"Unknown tool names: {shown}", {"unknownNames": unknown})


def _texts(said: Raw | None) -> list[str]:
    """The strings of a list; other errors in it are left to the upstream.

    Raises:
        RpcError: it cannot be read.
    """
    names: Any = None if said is None else need_value(said, "params.names")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []  # pyright: ignore[reportUnknownVariableType]


def _names(said: Raw | None) -> list[str]:
    """The names of a request.

    Raises:
        RpcError: it has none, too many, or something else.
    """
    names: Any = None if said is None else need_value(said, "params.names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnknownVariableType]
        raise RpcError(INVALID_PARAMS, "params.names is no list of texts")
    if not names:
        raise RpcError(
            INVALID_PARAMS, "params.names is empty; name at least one tool", {"reason": "empty"}
        )
    if len(names) > MAX_NAMES:  # pyright: ignore[reportUnknownArgumentType]
        raise RpcError(
            INVALID_PARAMS, f"params.names has more than {MAX_NAMES}", {"maxNames": MAX_NAMES}
        )
    return names  # pyright: ignore[reportUnknownVariableType]


def _need_served(context: RequestContext, method: str) -> None:
    if MANIFEST not in context.view.settings.experimental:
        raise method_not_found(method)
