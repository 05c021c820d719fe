"""Asks a person to log in at an upstream, in the way that its client supports.

Owns: the answers to a request that needs a login first. Never imports a transport.
"""

from __future__ import annotations

import secrets
from typing import Any

from msgspec import Raw

from armory.errors import LoginNeeded
from armory.gateway.context import RequestContext
from armory.gateway.results.answers import failed_call
from armory.protocol import codes, jsonrpc
from armory.protocol.link import Reply
from armory.wire.eras.questions import may_ask
from armory.wire.methods import Handler

_URL_MODE = {"mode": Raw(b'"url"')}


def asking_for_logins(method: str, handler: Handler) -> Handler:
    """A handler that answers with a login request where one is needed."""

    async def asking(context: RequestContext, params: dict[str, Raw]) -> Reply:
        try:
            return await handler(context, params)
        except LoginNeeded as needed:
            return _login_request(context, method, needed)

    return asking


def _login_request(context: RequestContext, method: str, needed: LoginNeeded) -> Reply:
    """`input_required`, URL elicitation, or a text with the URL for clients that support neither.

    The URL is the gateway's own page, the same for everybody: whoever opens it identifies there.
    """
    server = needed.upstream
    if not context.origin:
        hint = f"; the gateway's operator can run: armory login {server} --as USER"
        error = LoginNeeded(needed.message + hint, upstream=server)
    else:
        url = f"{context.origin}/connect/{server}"
        error = LoginNeeded(f"{needed.message}: {url}", upstream=server, url=url)
        capabilities = context.client.capabilities
        if may_ask("elicitation/create", _URL_MODE, capabilities, context.era, context.version):
            elicitation: dict[str, Any] = {
                "mode": "url",
                "elicitationId": secrets.token_urlsafe(18),
                "url": url,
                "message": needed.message,
            }
            data = {"elicitations": [elicitation]}
            raw = jsonrpc.error(codes.URL_ELICITATION_REQUIRED, error.message, data)
            return Reply(error=raw, era="legacy")
    if method == "tools/call":
        return failed_call(error)
    data = {"code": error.code, "upstream": server} | ({"url": error.url} if error.url else {})
    return Reply(error=jsonrpc.error(codes.UNAVAILABLE, error.message, data))
