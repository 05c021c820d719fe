"""Whether policy, as it is by now, permits what a request asks for.

Owns: that question, for a call that began before: what is not listed any more may go on. Never
imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.domain.naming import split_uri
from armory.gateway.context import RequestContext
from armory.gateway.metatools.definitions import CALL
from armory.protocol.rawjson import members_or_none, text_of


def is_permitted(context: RequestContext, method: str, params: Mapping[str, Raw]) -> bool:
    """Whether the caller may use the tool, prompt or resource that is named."""
    policy, endpoint = context.view.policy, context.endpoint
    if method == "resources/read":
        uri = text_of(params, "uri") or ""
        place = (endpoint.name, uri) if endpoint.transparent else split_uri(uri)
        return place is None or policy.allows_uri(context.principal, *place)
    name = text_of(params, "name") or ""
    if endpoint.transparent:
        find = context.view.prompt_at if method == "prompts/get" else context.view.tool_at
        record = find(endpoint.name, name)
        if record is None:
            return True
        return policy.allows(context.principal, record.name, server=record.server)
    if method == "tools/call" and name == CALL:
        name = text_of(members_or_none(params.get("arguments")) or {}, "name") or ""
    catalog = context.view.catalog
    record = (catalog.prompts if method == "prompts/get" else catalog.tools).get(name)
    return policy.allows(context.principal, name, server=record.server if record else None)
