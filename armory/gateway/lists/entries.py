"""prompts/list, resources/list, resources/templates/list and skills/list.

Owns: what these listings show. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
        seen = [r for n, r in records.items() if n in visible.names(kind)]
        shown = await _wanted(seen, kind, wanted)
        body = b",".join([listed_bytes(record, kind, form) for record in shown])
        return list_result(context, method, member, body, kept=False, private=True)
    body = view.listed.all_of(kind, visible, form)
    return list_result(context, method, member, body)


async def _wanted(
    records: Iterable[ListedRecord], kind: Kind, wanted: ListFilter
) -> list[ListedRecord]:
    """The entries that match a filter; prompts have no URI to match."""
    found = list(records)
    if wanted.names is not None:
        names = {name for record in found if (name := _named(record, kind)) is not None}
        among = await wanted.names.among(names)
        found = [record for record in found if _named(record, kind) in among]
    if wanted.uris is not None and kind != "prompts":
        among = await wanted.uris.among([record.name for record in found])
        found = [record for record in found if record.name in among]
    return found


def _named(record: ListedRecord, kind: Kind) -> str | None:
    name: object = record.name if kind == "prompts" else record.definition.get("name")
    return name if isinstance(name, str) else None
