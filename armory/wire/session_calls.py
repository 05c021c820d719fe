"""What a legacy client sends within its session, whatever the transport.

Owns: the methods that change the session, notifications and responses of the client. Never imports
a web framework.
"""

from __future__ import annotations

from msgspec import UNSET, Raw

from armory.gateway.exchange import INVALID_PARAMS, Exchange, RpcError
from armory.gateway.gateway import Gateway
from armory.gateway.rawjson import need_text
from armory.upstreams.link import Reply
from armory.wire import eras, jsonrpc
from armory.wire.dispatch import Dispatcher
from armory.wire.errors import ANSWERED, error_object
from armory.wire.jsonrpc import Malformed, Message
from armory.wire.methods import route
from armory.wire.sessions import Session

_EMPTY = Reply(result=jsonrpc.EMPTY, era="legacy")


async def serve(
    dispatcher: Dispatcher,
    session: Session,
    exchange: Exchange,
    message: Message,
    params: dict[str, Raw],
) -> Reply:
    """The answer to one request of a session."""
    method = message.method if message.method is not UNSET else ""
    found = route(method, "legacy")
    if found is None or found.kind != "session":
        return await dispatcher.answer(exchange, method, params)
    try:
        return await _session_method(dispatcher.gateway, session, exchange, method, params)
    except ANSWERED as failure:
        return Reply(error=error_object(failure), era="legacy")


async def _session_method(
    gateway: Gateway, session: Session, exchange: Exchange, method: str, params: dict[str, Raw]
) -> Reply:
    if method == "logging/setLevel":
        level = need_text(params, "level")
        if level not in eras.LOG_LEVELS:
            raise RpcError(
                INVALID_PARAMS,
                f"params.level is {level[:40]!r}; expected one of {', '.join(eras.LOG_LEVELS)}",
            )
        session.log_level = level
        return _EMPTY
    uri = need_text(params, "uri")
    on = method == "resources/subscribe"
    await gateway.subscribe(exchange, session.subscription, uri, on=on)
    return _EMPTY


def take(session: Session, message: Message) -> None:
    """A notification or a response of the client."""
    if not message.is_notification:
        session.answered(message)
        return
    if message.method == "notifications/cancelled":
        try:
            request = jsonrpc.params_of(message).get("requestId")
        except Malformed:
            return
        task = session.inflight.get(bytes(memoryview(request))) if request is not None else None
        if task is not None:
            task.cancel()
