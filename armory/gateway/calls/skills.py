"""Skills of upstreams (SEP-2640): listing, one entry, a folder's children.

Owns: `skills/list`, `skills/get` and `resources/directory/read`; their files are read as any
resource is. Never imports a transport.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from armory.gateway.calls.forwarding import Forwarder
from armory.gateway.context import RequestContext
from armory.gateway.lists.entries import list_entries
from armory.protocol.capabilities import DIRECTORY_READ, merged_skills_settings, skills_settings
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError, method_not_found
from armory.protocol.link import Reply
from armory.protocol.rawjson import need_text, pack

LIST = "skills/list"
GET = "skills/get"
DIRECTORY = "resources/directory/read"


class Skills:
    """Serves the skills of upstreams, where any upstream offers some.

    Args:
        forwarder: sends requests to them.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def list(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `skills/list`.

        Raises:
            RpcError: a cursor that is not ours; no upstream offers skills.
        """
        if _offered(context) is None:
            raise method_not_found(LIST)
        return await list_entries(LIST, context, params)

    async def get(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `skills/get` from the upstream, so that the entry is current.

        Raises:
            RpcError: no such skill for this caller; no upstream offers skills.
            UpstreamUnavailable: its upstream cannot answer.
        """
        return await self._forwarded(GET, context, params)

    async def read_directory(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `resources/directory/read`.

        Raises:
            RpcError: no such folder for this caller; no upstream reads folders.
            UpstreamUnavailable: its upstream cannot answer.
        """
        return await self._forwarded(DIRECTORY, context, params, setting=DIRECTORY_READ)

    async def _forwarded(
        self, method: str, context: RequestContext, params: dict[str, Raw], setting: str = ""
    ) -> Reply:
        offered = _offered(context)
        if offered is None or (setting and offered.get(setting) is not True):
            raise method_not_found(method)
        given = need_text(params, "uri")
        server, uri = await self._forwarder.located(context, given)
        own = skills_settings(context.view.catalog.servers[server].capabilities)
        if own is None or (setting and own.get(setting) is not True):
            raise RpcError(
                INVALID_PARAMS, f"upstream {server!r} has nothing of this kind", {"uri": given}
            )
        sent = {**params, "uri": pack(uri)}
        return await self._forwarder.send(context, server, method, sent, safe_to_retry=True)


def _offered(context: RequestContext) -> dict[str, Any] | None:
    servers = context.view.servers.at(context.endpoint)
    return merged_skills_settings(lists.capabilities for lists in servers.values())
