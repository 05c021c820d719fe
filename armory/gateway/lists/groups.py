"""Groups of tools (draft `io.modelcontextprotocol/groups`): the two methods.

Owns: `groups/list`, `groups/get`, and who gets tools by groups rather than in `tools/list`. Only
where `server.experimental` has `groups`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.gateway.endpoint import Endpoint
from armory.gateway.lists.grouping import group_named, groups_of
from armory.gateway.lists.own_endpoint import group_seen, groups_seen
from armory.gateway.lists.pages import refuse_cursor
from armory.gateway.settings import GROUPS, GatewaySettings
from armory.gateway.views.definitions import Form
from armory.protocol.capabilities import declares_groups
from armory.protocol.codes import RESOURCE_NOT_FOUND
from armory.protocol.errors import RpcError, method_not_found
from armory.protocol.link import Reply
from armory.protocol.meta import DEGRADED
from armory.protocol.rawjson import encode, need_text, text_of

LIST = "groups/list"
GET = "groups/get"
PassOn = Callable[[str, RequestContext, dict[str, Raw]], Awaitable[Reply]]


def negotiated(context: RequestContext) -> bool:
    """Whether the client of a request gets its tools by groups."""
    return served_to(context.client.capabilities, context.endpoint, context.view.settings)


def served_to(
    capabilities: Mapping[str, Any], endpoint: Endpoint, settings: GatewaySettings
) -> bool:
    """Whether groups are enabled, the endpoint has any, and the client declares them."""
    if GROUPS not in settings.experimental or endpoint.transparent:
        return False
    return declares_groups(capabilities)


def scoped_by_upstream(context: RequestContext) -> frozenset[str]:
    """The tools (exposed names) that an upstream's own groups contain, at its own endpoint, for a
    client that gets its tools by groups.
    """
    view, endpoint = context.view, context.endpoint
    lists = view.catalog.servers.get(endpoint.name) if endpoint.transparent else None
    if lists is None or not (lists.groups and declares_groups(context.client.capabilities)):
        return frozenset()
    originals = {tool for group in lists.groups for tool in group.everything()}
    return frozenset(
        name
        for name, tool in view.catalog.tools.items()
        if tool.server == endpoint.name and tool.original_name in originals
    )


class Groups:
    """Answers `groups/list` and `groups/get`.

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
            return await groups_seen(context, await self._pass_on(LIST, context, params))
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
            asked = text_of(params, "name") or ""
            return await group_seen(context, asked, await self._pass_on(GET, context, params))
        _need_negotiated(context, GET)
        name = need_text(params, "name")
        group = group_named(context, name)
        if group is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"Group not found: {name[:200]}", {"name": name})
        contents: dict[str, Any] = {}
        if group.tools:
            tools = context.view.listed.tools(group.tools, Form(context.era))
            contents["tools"] = Raw(b"[" + tools + b"]")
        if group.groups:
            contents["groups"] = [inner.listed() for inner in group.groups]
        result: dict[str, Any] = {"contents": contents}
        if group.instructions:
            result["instructions"] = group.instructions
        return Reply(Raw(encode(result)), era="legacy")


def _need_negotiated(context: RequestContext, method: str) -> None:
    if not negotiated(context):
        raise method_not_found(method)
