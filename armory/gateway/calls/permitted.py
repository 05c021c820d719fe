"""Whether policy still permits a request that is already in progress.

Owns: that question, for a call that began before: what is not listed any more may go on. Never
imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.domain.naming import expose_names, split_uri
from armory.domain.tool import ListedRecord, ToolRecord
from armory.gateway.context import RequestContext
from armory.gateway.metatools.definitions import CALL
from armory.protocol.rawjson import members_or_none, text_of


def is_permitted(context: RequestContext, method: str, params: Mapping[str, Raw]) -> bool:
    """Whether the caller may use the tool, prompt or resource that the request names."""
    policy, endpoint = context.view.policy, context.endpoint
    if method == "resources/read":
        uri = text_of(params, "uri") or ""
        place = (endpoint.name, uri) if endpoint.transparent else split_uri(uri)
        return place is None or policy.allows_uri(context.principal, *place)
    name = text_of(params, "name") or ""
    if method == "tools/call" and name == CALL and not endpoint.transparent:
        name = text_of(members_or_none(params.get("arguments")) or {}, "name") or ""
    record = _record(context, method, name)
    if record is not None:
        return policy.allows_listed(context.principal, record)
    exposed = expose_names(endpoint.name, (name,))[name] if endpoint.transparent else name
    return policy.allows(context.principal, exposed)


def _record(context: RequestContext, method: str, name: str) -> ToolRecord | ListedRecord | None:
    """The record of that name in the request's view; None: it is not listed any more."""
    view, prompts = context.view, method == "prompts/get"
    if context.endpoint.transparent:
        return (view.prompt_at if prompts else view.tool_at)(context.endpoint.name, name)
    return (view.catalog.prompts if prompts else view.catalog.tools).get(name)
