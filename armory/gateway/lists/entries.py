"""prompts/list, resources/list, resources/templates/list and skills/list.

Owns: what these listings show. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.domain.tool import ListedRecord
from armory.gateway.context import RequestContext
from armory.gateway.lists.pages import list_result, refuse_cursor
from armory.gateway.queries.filters import NOTHING, ListFilter, read_filter
from armory.gateway.views.definitions import Form, Kind, listed_bytes
from armory.protocol.link import Reply

_LISTS: Mapping[str, tuple[Kind, bytes]] = {
    "prompts/list": ("prompts", b"prompts"),
    "resources/list": ("resources", b"resources"),
    "resources/templates/list": ("templates", b"resourceTemplates"),
    "skills/list": ("skills", b"skills"),
}


async def list_entries(method: str, context: RequestContext, params: Mapping[str, Raw]) -> Reply:
    """Answer one of the four.

    Raises:
        RpcError: a cursor that is not ours, or a filter that is none.
    """
    refuse_cursor(params)
    view = context.view
    kind, member = _LISTS[method]
    wanted = NOTHING
    if not context.endpoint.transparent and kind != "skills":
        wanted = read_filter(params, view.settings.experimental)
    form = Form(context.era, original=context.endpoint.transparent)
    visible = view.visible(context)
    if (wanted.names, wanted.uris) != (None, None):
        records: Mapping[str, ListedRecord] = getattr(view.catalog, kind)
        shown = [
            r for n, r in records.items() if n in visible.names(kind) and _fits(r, kind, wanted)
        ]
        body = b",".join([listed_bytes(record, kind, form) for record in shown])
        return list_result(context, method, member, body, kept=False, private=True)
    body = view.listed.all_of(kind, visible, form)
    return list_result(context, method, member, body)


def _fits(record: ListedRecord, kind: Kind, wanted: ListFilter) -> bool:
    """Whether an entry is one that a filter asks for; prompts have no URI to ask for."""
    name = record.name if kind == "prompts" else record.definition.get("name")
    if wanted.names is not None and not (isinstance(name, str) and wanted.names.match(name)):
        return False
    return kind == "prompts" or wanted.uris is None or wanted.uris.match(record.name)
