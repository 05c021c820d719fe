"""Checks that a caller knows the servers and tools that it names in packs and installations.

Owns: refusing others. What is hidden from a caller is answered like what does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import chain

from armory.domain.naming import split_name
from armory.errors import InvalidRequest
from armory.web.rest.routes import RestCall


class CallerCatalog:
    """The servers and tools that a caller knows; any tool counts as known while its upstream is
    down.

    Args:
        call: whose request it is.
    """

    def __init__(self, call: RestCall) -> None:
        services = call.services
        self._call, self._policy = call, services.policy()
        self._catalog, self._registered = services.catalog(), services.accounts.registry.records
        self._away = services.upstreams().keys() - self._catalog.servers.keys()

    def _allowed(self, name: str) -> bool:
        call = self._call
        return call.admin or self._policy.allows(call.principal, name, packs=False)

    @cached_property
    def _servers(self) -> set[str]:
        tools = chain(self._catalog.tools.values(), self._registered.values())
        return {tool.server for tool in tools if self._allowed(tool.name)}

    def has_server(self, key: str) -> bool:
        """Whether the caller knows a server."""
        if key in self._away:
            return self._allowed(f"{key}__tool") or key in self._servers
        return key in self._servers

    def has_tool(self, name: str) -> bool:
        """Whether it knows a tool, by its exposed name."""
        server, _ = split_name(name) or ("", "")
        there = name in self._catalog.tools or name in self._registered or server in self._away
        return there and self._allowed(name)


def check_known(
    call: RestCall,
    servers: Iterable[str] = (),
    tools: Iterable[str] = (),
    *,
    parameters: tuple[str, str],
) -> None:
    """Refuse servers and tools that the caller does not know.

    Args:
        call: whose request it is.
        servers: keys of servers.
        tools: exposed names.
        parameters: what the two are called in the request.

    Raises:
        InvalidRequest: there is no such server or tool for this caller.
    """
    catalog = CallerCatalog(call)
    for server in servers:
        if not catalog.has_server(server):
            raise InvalidRequest(f"there is no server {server!r}", parameter=parameters[0])
    for tool in tools:
        if not catalog.has_tool(tool):
            raise InvalidRequest(f"there is no tool {tool!r}", parameter=parameters[1])
