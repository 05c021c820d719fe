"""The servers and tools that a caller may name, in packs and installations.

Owns: refusing others. What is hidden from a caller is answered like what does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable

from armory.domain.naming import split_name
from armory.errors import InvalidRequest
from armory.web.rest.routes import RestCall


def check_known(
    call: RestCall,
    servers: Iterable[str] = (),
    tools: Iterable[str] = (),
    *,
    parameters: tuple[str, str],
) -> None:
    """Refuse servers and tools that the caller does not know.

    What an upstream that is down may have is not refused.

    Args:
        call: whose request it is.
        servers: keys of servers.
        tools: exposed names.
        parameters: what the two are called in the request.

    Raises:
        InvalidRequest: there is no such server or tool for this caller.
    """
    services, principal = call.services, call.principal
    policy, catalog = services.policy(), services.catalog()
    registered = services.accounts.registry.records
    away = services.upstreams().keys() - catalog.servers.keys()

    def allowed(name: str) -> bool:
        return call.admin or policy.allows(principal, name, packs=False)

    known = {name for name in (*catalog.tools, *registered) if allowed(name)}
    of_servers = {
        t.server for t in (*catalog.tools.values(), *registered.values()) if t.name in known
    }
    for server in servers:
        if server not in of_servers and not (server in away and allowed(f"{server}__tool")):
            raise InvalidRequest(f"there is no server {server!r}", parameter=parameters[0])
    for tool in tools:
        server, _ = split_name(tool) or ("", "")
        if tool not in known and not (server in away and allowed(tool)):
            raise InvalidRequest(f"there is no tool {tool!r}", parameter=parameters[1])
