"""Groups of tools (draft `io.modelcontextprotocol/groups`): one per server and per set.

Owns: `groups/list`, `groups/get`, what groups are called, and who gets tools by groups rather than
in `tools/list`. Only where `server.experimental` has `groups`. Never imports a transport.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import Raw

from armory.domain.tool import names_by_server
from armory.gateway.context import RequestContext
from armory.gateway.endpoint import Endpoint
from armory.gateway.lists.pages import refuse_cursor
from armory.gateway.metatools.definitions import purpose
from armory.gateway.settings import GROUPS, GatewaySettings
from armory.gateway.views.definitions import Form
from armory.gateway.views.view import View
from armory.protocol.codes import METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.meta import DEGRADED
from armory.protocol.methods import GROUPS_EXTENSION
from armory.protocol.rawjson import encode, need_text

LIST = "groups/list"
GET = "groups/get"
SET_PREFIX = "set-"
MAX_NAME = 64
_HASHED = 8
_NAMED_SERVERS = 8
PassOn = Callable[[str, RequestContext, dict[str, Raw]], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Group:
    """One group as one caller sees it.

    Attributes:
        name: 1 to 64 lower-case letters, digits and single hyphens; the same for every caller.
        title: what it is called in `armory.yaml`.
        description: what it is for, in a phrase.
        tools: exposed names of its tools, at least one, in the catalog's order.
        instructions: what its server says about using it; "": nothing.
    """

    name: str
    title: str
    description: str
    tools: tuple[str, ...]
    instructions: str = ""

    def listed(self) -> dict[str, Any]:
        """The `Group` object of the draft."""
        return {"name": self.name, "title": self.title, "description": self.description}


def negotiated(context: RequestContext) -> bool:
    """Whether a request's tools come by groups."""
    return served_to(context.client.capabilities, context.endpoint, context.view.settings)


def served_to(
    capabilities: Mapping[str, Any], endpoint: Endpoint, settings: GatewaySettings
) -> bool:
    """Whether groups are on, this is an endpoint that has any, and the client declares them."""
    if GROUPS not in settings.experimental or endpoint.transparent:
        return False
    declared = capabilities.get("extensions")
    return isinstance(declared, Mapping) and GROUPS_EXTENSION in declared


class Groups:
    """Serves the two methods.

    Args:
        pass_on: sends a request on to the upstream whose own endpoint it came to.
    """

    def __init__(self, pass_on: PassOn) -> None:
        self._pass_on = pass_on

    async def list(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `groups/list`: the groups of which the caller may see anything.

        Raises:
            RpcError: groups were not negotiated; a cursor that is not ours.
        """
        if context.endpoint.transparent:
            return await self._pass_on(LIST, context, params)
        _need_negotiated(context, LIST)
        refuse_cursor(params)
        result: dict[str, Any] = {"groups": [group.listed() for group in groups_of(context)]}
        lacking = context.view.lacks(context)
        if lacking is not None:
            result["_meta"] = {DEGRADED: lacking}
        return Reply(Raw(encode(result)), era="legacy")

    async def get(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `groups/get`: the definitions of a group's tools, and how to use them.

        Raises:
            RpcError: groups were not negotiated; no such group for this caller.
        """
        if context.endpoint.transparent:
            return await self._pass_on(GET, context, params)
        _need_negotiated(context, GET)
        name = need_text(params, "name")
        group = next((g for g in groups_of(context) if g.name == name), None)
        if group is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"Group not found: {name[:200]}", {"name": name})
        tools = context.view.tools_json(group.tools, Form(context.era))
        result: dict[str, Any] = {"contents": {"tools": Raw(b"[" + tools + b"]")}}
        if group.instructions:
            result["instructions"] = group.instructions
        return Reply(Raw(encode(result)), era="legacy")


def groups_of(context: RequestContext) -> Iterator[Group]:
    """The groups of which a caller sees anything: servers, then sets, as they are configured.

    A pinned tool is in `tools/list` and therefore in no group; without another tool there is none.
    """
    view = context.view
    visible, catalog = view.visible(context), view.catalog
    pinned = frozenset(view.pinned(visible))
    shown_tools = visible.tools.names - pinned
    scoped = names_by_server(tool for name, tool in catalog.tools.items() if name in shown_tools)
    for key, lists in catalog.servers.items():
        names = scoped.get(key)
        if names:
            shown = replace(lists, tools=[{"name": catalog.tools[n].original_name} for n in names])
            about = purpose(key, shown)  # of what others see, it names nothing
            yield Group(group_name(key), key, about, tuple(names), lists.instructions)
    if context.endpoint.kind == "all":
        yield from _sets(view, scoped)


def _sets(view: View, scoped: Mapping[str, list[str]]) -> Iterator[Group]:
    """The groups of sets.

    Args:
        view: what is served.
        scoped: server key -> the tools that groups may have.
    """
    for key, spec in view.settings.sets.items():
        endpoint = view.endpoint("set", key)
        if endpoint is None:
            continue
        has = endpoint.scope.has_tool
        found = {server: [n for n in names if has(server, n)] for server, names in scoped.items()}
        names = tuple(name for among in found.values() for name in among)
        if names:
            servers = [server for server, among in found.items() if among]
            about = _about_set(servers, spec.query)
            yield Group(group_name(key, SET_PREFIX), key, about, names)


def group_name(key: str, prefix: str = "") -> str:
    """What the group of a server or a set is called, whatever others there are.

    A key that is no group's name as it is gets a part of its hash: two keys never share one.

    Args:
        key: as in `armory.yaml`.
        prefix: "" for servers, `set-` for sets.
    """
    plain = re.sub("[^a-z0-9]+", "-", key.lower()).strip("-")
    fits = plain == key and len(prefix + plain) <= MAX_NAME
    if fits and (prefix or not plain.startswith(SET_PREFIX)):
        return prefix + plain
    digest = hashlib.sha256(key.encode()).hexdigest()[:_HASHED]
    plain = plain.removeprefix("" if prefix else SET_PREFIX)
    room = MAX_NAME - len(prefix) - len(digest) - 1
    plain = plain[:room].strip("-") or "group"
    return f"{prefix}{plain}-{digest}"


def _about_set(servers: list[str], query: tuple[str, ...]) -> str:
    named = ", ".join(servers[:_NAMED_SERVERS])
    more = " and more" if len(servers) > _NAMED_SERVERS else ""
    purpose_of = f"For: {'; '.join(query)}. " if query else ""
    return f"{purpose_of}Tools of {named}{more}."


def _need_negotiated(context: RequestContext, method: str) -> None:
    if not negotiated(context):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
