"""The gateway's description of itself: capabilities, instructions, the discovery document.

Owns: `Description`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.domain.visibility import VisibleCatalog
from armory.gateway.context import RequestContext
from armory.gateway.metatools.definitions import purpose, searching_tool, servers_shown
from armory.gateway.queries.filters import with_filtering
from armory.gateway.settings import GROUPS, MANIFEST, GatewaySettings
from armory.gateway.views.view import View
from armory.protocol.capabilities import GROUPS_EXTENSION, SKILLS_EXTENSION, merged_skills_settings
from armory.protocol.meta import QUERY, TOOL_RAG

_MAX_INSTRUCTIONS = 2_048
"""Clients cut what is longer."""
_MAX_LINE = 500
_MIN_LINE = 160
_MORE = "- and more"


class Description:
    """Describes the endpoints to clients.

    Args:
        filters: whether a query filters listings under some settings.
        lacks_some: whether what a client lists lacks tools; asked where queries filter.
    """

    def __init__(
        self,
        filters: Callable[[GatewaySettings], bool],
        lacks_some: Callable[[RequestContext], bool],
    ) -> None:
        self._filters = filters
        self._lacks_some = lacks_some

    def of_endpoint(self, context: RequestContext) -> dict[str, Any]:
        """`capabilities`, `instructions` and `serverInfo` of the endpoint in the client's era,
        including the gateway's own capabilities.
        """
        view, endpoint = context.view, context.endpoint
        modern, transparent = context.era == "modern", context.endpoint.transparent
        merged: dict[str, Any] = {}
        extensions: dict[str, Any] = {}
        servers = view.servers.known_to(context)
        for lists in servers.values():
            _merge_primitives(merged, lists)
            if not modern:
                _merge_tasks(merged, lists)
            declared = lists.capabilities.get("extensions")
            if isinstance(declared, dict):
                named = cast("dict[str, Any]", declared)
                # clients refuse the whole answer for settings that are no object
                extensions |= {k: v for k, v in named.items() if transparent or type(v) is dict}
            if transparent:
                left_out = ("extensions", "tasks") if modern else ("extensions",)
                merged |= {k: v for k, v in lists.capabilities.items() if k not in left_out}
                merged |= {} if modern else _announced(lists)
        skills = merged_skills_settings(lists.capabilities for lists in servers.values())
        if skills is not None:
            merged.setdefault("resources", {"subscribe": True, "listChanged": True})
        if not transparent:
            merged.setdefault("tools", {"listChanged": True})
            with_filtering(merged, view.settings.experimental)
            if MANIFEST in view.settings.experimental:
                merged["tools"] = {**merged["tools"], "manifest": True}
            if modern:
                extensions.update(self._extension(view))
            else:
                merged["experimental"] = self._extension(view)
        shown = _served_extensions(
            extensions if modern or transparent else {},
            skills,
            None if transparent else GROUPS in view.settings.experimental,
        )
        if shown:
            merged["extensions"] = shown
        return {
            "capabilities": merged,
            "instructions": self.instructions(context),
            "serverInfo": view.info(endpoint),
        }

    def instructions(self, context: RequestContext) -> str:
        """The instructions of the endpoint; the upstream's own text on a transparent one."""
        view = context.view
        if context.endpoint.transparent:
            servers = view.servers.at(context.endpoint)
            return "".join(lists.instructions for lists in servers.values())
        visible = view.visible(context)
        searching = self._filters(view.settings) and self._lacks_some(context)
        key = (visible.tools.key, searching)
        known = view.instructions.get(key)
        if known is None:
            tool = searching_tool(view.settings) if searching else None
            known = view.instructions[key] = self._instructions(view, visible, tool)
        return known

    def _instructions(self, view: View, visible: VisibleCatalog, searching: str | None) -> str:
        lines = [
            "Armory, a gateway in front of several MCP servers. Tools are named server__tool."
            + (f" Use {searching} to find tools that are not listed." if searching else "")
        ]
        shown = servers_shown(view.catalog, visible, view.tables.by_server)
        room = _MAX_INSTRUCTIONS - len(lines[0]) - len(_MORE) - 1
        longest = min(_MAX_LINE, max(_MIN_LINE, room // max(1, len(shown)) - 1))
        for key, lists in shown.items():
            said = lists.instructions[: 4 * _MAX_LINE]  # white space apart, of no use beyond
            line = f"- {key}: {' '.join(said.split()) or purpose(key, lists)}"
            line = line if len(line) <= longest else line[: longest - 3] + "..."
            room -= len(line) + 1
            if room < 0:
                lines.append(_MORE)
                break
            lines.append(line)
        return "\n".join(lines)

    def discovery(
        self, view: View, principal: Principal | None, awaited: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The discovery document: endpoints and versions, and the servers and sets that the caller
        may see.

        Args:
            view: what is served.
            principal: the caller; None: unknown, and neither is shown.
            awaited: further upstreams that it may know of, which have listed nothing so far.
        """
        base = view.settings.base_path
        document: dict[str, Any] = {
            "name": view.settings.server_name,
            "version": view.settings.server_version,
            "endpoints": {"mcp": f"{base}/mcp", "sse": f"{base}/sse"},
            "extensions": self._extension(view),
        }
        if principal is not None:
            shown = [*view.servers.seen_by(principal), *awaited]
            sets = view.sets_for(principal)
            document["servers"] = {key: f"{base}/mcp/{key}" for key in shown}
            document["sets"] = {key: f"{base}/mcp/set/{key}" for key in sets}
        return document

    def _extension(self, view: View) -> dict[str, Any]:
        """The Tool RAG extension, as capabilities advertise it."""
        settings = view.settings
        return {
            TOOL_RAG: {
                "query": QUERY,
                "enabled": self._filters(settings),
                "searchTools": settings.search_tools,
            }
        }


def _served_extensions(
    declared: Mapping[str, Any], skills: Mapping[str, Any] | None, groups: bool | None
) -> dict[str, Any]:
    """The extensions that an endpoint advertises.

    Args:
        declared: what its upstreams declare, and the gateway's own.
        skills: the settings of that extension; None: it is not served.
        groups: whether the gateway serves groups; None: its upstream serves them, or does not.
    """
    shown = {name: settings for name, settings in declared.items() if name != SKILLS_EXTENSION}
    if skills is not None:
        shown[SKILLS_EXTENSION] = skills
    if groups is not None:  # upstreams show the gateway no groups: it does not declare them
        shown.pop(GROUPS_EXTENSION, None)
    if groups:
        shown[GROUPS_EXTENSION] = {"listChanged": True}
    return shown


def _merge_primitives(merged: dict[str, Any], lists: ServerLists) -> None:
    """Merge the capabilities of one upstream's lists into the endpoint's."""
    own = lists.capabilities
    for key in ("logging", "completions"):
        if key in own:
            merged.setdefault(key, {})
    if "prompts" in own or lists.prompts:
        merged["prompts"] = {"listChanged": True}
    if "resources" in own or lists.resources or lists.templates:
        merged["resources"] = {"subscribe": True, "listChanged": True}
    if "tools" in own or lists.tools:
        merged["tools"] = {"listChanged": True}


def _announced(lists: ServerLists) -> dict[str, Any]:
    """A modern upstream's list capabilities for a client with a handshake. Its own describe streams
    that this client cannot open; in a session, changes are always announced.
    """
    own = lists.capabilities
    listed = [key for key in ("tools", "prompts", "resources") if lists.cache and key in own]
    return {key: {**_part(own, key), "listChanged": True} for key in listed}


def _merge_tasks(merged: dict[str, Any], lists: ServerLists) -> None:
    """Add the capability of calling tools as tasks (2025-11-25). `tasks/list` is not offered over
    several servers.
    """
    tasks = _part(lists.capabilities, "tasks")
    if _part(_part(tasks, "requests"), "tools").get("call") is None:
        return
    shown = merged.setdefault("tasks", {"requests": {"tools": {"call": {}}}})
    if "cancel" in tasks:
        shown["cancel"] = {}


def _part(declared: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = declared.get(key)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
