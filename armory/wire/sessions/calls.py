"""The methods that change a legacy session.

Owns: `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe`. Never imports a web
framework.
"""

from __future__ import annotations

from msgspec import UNSET, Raw

from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.gateway.requests import ClientRequest
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.jsonrpc import Message
from armory.protocol.link import Reply
from armory.protocol.loglevels import LOG_LEVELS
from armory.protocol.rawjson import EMPTY_OBJECT, need_text
from armory.wire.dispatch import Dispatcher
from armory.wire.errors import ANSWERED, error_object
from armory.wire.sessions.session import Session

_EMPTY = Reply(result=EMPTY_OBJECT, era="legacy")
_METHODS = ("logging/setLevel", "resources/subscribe", "resources/unsubscribe")


async def serve(
    dispatcher: Dispatcher,
    session: Session,
    request: ClientRequest,
    message: Message,
    params: dict[str, Raw],
) -> Reply:
    """The answer to one request of a session."""
    method = message.method if message.method is not UNSET else ""
    if method not in _METHODS:
        return await dispatcher.answer(request, method, params)
    try:
        context = await dispatcher.gateway.context(request, own_lists="unused")
        return await _session_method(dispatcher.gateway, session, context, method, params)
    except ANSWERED as failure:
        return Reply(error=error_object(failure), era="legacy")


async def _session_method(
    gateway: Gateway, session: Session, context: RequestContext, method: str, params: dict[str, Raw]
) -> Reply:
    if method == "logging/setLevel":
        level = need_text(params, "level")
        if level not in LOG_LEVELS:
            raise RpcError(
                INVALID_PARAMS,
                f"params.level is {level[:40]!r}; expected one of {', '.join(LOG_LEVELS)}",
            )
        session.log_level = level
        return _EMPTY
    uri = need_text(params, "uri")
    on = method == "resources/subscribe"
    await gateway.subscribe(context, session.subscription, uri, on=on)
    return _EMPTY
