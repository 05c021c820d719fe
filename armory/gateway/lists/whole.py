"""Whether a client's listing shows everything, or it has to search for the rest.

Owns: that decision, for a listing and for what is said of the endpoint beforehand. Lists nothing.
"""

from __future__ import annotations

from armory.gateway.context import RequestContext
from armory.gateway.lists.groups import negotiated
from armory.gateway.metatools.definitions import searching_tool
from armory.gateway.queries.carriers import ListRequest, read_list_request
from armory.protocol.errors import RpcError


def is_whole(context: RequestContext, request: ListRequest) -> bool:
    """Whether a listing without a query shows everything."""
    settings = context.view.settings
    wanted = _mode(context, request)
    searching = searching_tool(settings) is not None
    visible = len(context.view.visible(context).tools)
    few = visible <= settings.full_list_limit or not searching
    return wanted == "all" or (wanted == "auto" and few) or not (searching or settings.call_tool)


def lacks_some(context: RequestContext) -> bool:
    """Whether a listing without parameters leaves tools out, so that the client needs
    `search_tools`. Only asked where queries filter listings.
    """
    spec = context.view.set_spec(context.endpoint)
    own, experimental = spec.query if spec else (), context.view.settings.experimental
    try:
        request = read_list_request(context, {}, own, experimental)
    except RpcError:  # its lists are refused
        return False
    if request.mode is None and (negotiated(context) or request.query is not None):
        return True
    return request.mode != "raw" and not request.narrowed and not is_whole(context, request)


def _mode(context: RequestContext, request: ListRequest) -> str:
    """The mode of a listing without a query: the request's, else the set's, else the configured
    one.
    """
    if request.mode is not None:
        return "all" if request.mode == "all" else "search"
    spec = context.view.set_spec(context.endpoint)
    return (spec.without_query if spec else None) or context.view.settings.without_query
