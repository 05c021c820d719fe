"""The lists of an upstream for callers that have not logged in there yet: one tool that asks for
it.

Owns: that tool. Never imports a transport.
"""

from __future__ import annotations

from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.domain.naming import LOG_IN
from armory.protocol.link import Call, Reply
from armory.protocol.rawjson import encode
from armory.upstreams.oauth.grants import Grant, has_logins

_CALL = "tools/call"


def lists_before_login(server: str, grant: Grant | None) -> ServerLists:
    """The lists that a caller without a login sees."""
    if not has_logins(grant):  # a token comes with the caller, or not at all
        return ServerLists()
    tool = {
        "name": LOG_IN,
        "title": f"Log in to {server}",
        "description": f"Connect your own account at {server}. Call this when {server} is needed: "
        "the user is asked to log in, and its tools are listed afterwards.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    }
    return ServerLists(tools=[tool], info={"name": server, "version": ""})


def is_login(call: Call, grant: Grant | None) -> bool:
    """Whether a call is for that tool."""
    asked = call.method == _CALL and call.name_header == LOG_IN
    return asked and has_logins(grant)


def logged_in(server: str) -> Reply:
    """The answer of that tool once the caller has logged in."""
    text = f"You are logged in to {server}. List the tools again to see what it offers."
    return Reply(result=Raw(encode({"content": [{"type": "text", "text": text}]})))
