"""prompts/list, resources/list and resources/templates/list.

Owns: what these listings show. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.gateway.lists.pages import list_result, refuse_cursor
from armory.gateway.views.definitions import Form, Kind
from armory.protocol.link import Reply

_LISTS: Mapping[str, tuple[Kind, bytes]] = {
    "prompts/list": ("prompts", b"prompts"),
    "resources/list": ("resources", b"resources"),
    "resources/templates/list": ("templates", b"resourceTemplates"),
}


async def list_entries(method: str, context: RequestContext, params: Mapping[str, Raw]) -> Reply:
    """Answer one of the three.

    Raises:
        RpcError: a cursor that is not ours.
    """
    refuse_cursor(params)
    view = context.view
    kind, member = _LISTS[method]
    form = Form(context.era, original=context.endpoint.transparent)
    body = view.listed_json(kind, view.visible(context), form)
    return list_result(context, method, member, body)
