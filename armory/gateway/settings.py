"""The settings of the request path, as plain values.

Owns: the dataclasses that `runtime` fills from the configuration. Imports `domain` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from armory.domain.query import MAX_QUERY_CHARS, MAX_TOP_K
from armory.domain.tool import ToolRecord

TASKS_PER_PRINCIPAL = 10_000
WithoutQuery = Literal["auto", "all", "search"]
ResultFormat = Literal["json", "toon"]
Personal = Literal["private", "always"]
Reveal = Literal["none", "session"]
Experimental = Literal["filter", "groups", "manifest"]
GROUPS: Experimental = "groups"
MANIFEST: Experimental = "manifest"


@dataclass(frozen=True, slots=True)
class SetSpec:
    """One named set, served at `/mcp/set/{name}`.

    Attributes:
        servers: server keys whose everything is in the set.
        tools: glob patterns over exposed tool names, in the set besides.
        query: the set's own query, used where the request brings none.
        without_query: what a request without any query gets; None: as configured for all.
    """

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    without_query: WithoutQuery | None = None


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings of the request path.

    Attributes:
        tool_rag: whether a query filters `tools/list` at all.
        without_query: what a listing without a query answers.
        full_list_limit: with `auto`, the largest number of tools that is listed in full.
        search_tools: whether the meta-tool `search_tools` exists.
        call_tool: whether the meta-tool `call_tool` is listed where the list is cut.
        find_tools: whether the retrieval agent is listed beside `search_tools`.
        pin: glob patterns over exposed names that every listing has.
        server_pins: server key -> glob patterns over original names, likewise pinned.
        max_tools: most matches of a query that does not say how many it wants.
        token_budget: most tokens (estimated at four bytes each) that the tools of a filtered list
            may take, the meta-tools beside them not counted.
        context_boosts: whether the tool that a caller called last counts in its queries.
        reveal: `session`: tools that a legacy session searched for enter its list.
        sets: the named sets.
        result_formats: server key -> `toon` where text results are to be made compact.
        personal: server key -> whether its lists are fetched for each principal: where it says that
            they are private, or always.
        by_capabilities: servers that may list something else for clients which can be asked less,
            and on a session that says so -> what tells one from another behind the same key.
        query_chars: longest query, all its texts together.
        query_top_k: most tools that a query may ask for.
        own_accounts: upstreams at which callers log in with accounts of their own.
        server_name, server_version: the gateway's own `serverInfo`.
        experimental: drafts of the protocol that are served.
        base_path: what stands before `/mcp` in the discovery document.
    """

    tool_rag: bool = True
    without_query: WithoutQuery = "auto"
    full_list_limit: int = 64
    search_tools: bool = True
    call_tool: bool = True
    find_tools: bool = False
    pin: tuple[str, ...] = ()
    server_pins: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    max_tools: int = 20
    token_budget: int | None = None
    context_boosts: bool = False
    reveal: Reveal = "none"
    sets: Mapping[str, SetSpec] = field(default_factory=dict[str, SetSpec])
    result_formats: Mapping[str, ResultFormat] = field(default_factory=dict[str, ResultFormat])
    personal: Mapping[str, Personal] = field(default_factory=dict[str, Personal])
    by_capabilities: Mapping[str, object] = field(default_factory=dict[str, object])
    query_chars: int = MAX_QUERY_CHARS
    query_top_k: int = MAX_TOP_K
    own_accounts: frozenset[str] = frozenset()
    server_name: str = "armory"
    server_version: str = "0"
    experimental: frozenset[str] = frozenset()
    base_path: str = ""

    def pins(self, tool: ToolRecord) -> bool:
        """Whether a tool is pinned: every listing has it, if the caller may see it, and unless it
        asks for other servers, categories or names alone.
        """
        own = self.server_pins.get(tool.server, ())
        return any(fnmatchcase(tool.name, pattern) for pattern in self.pin) or any(
            fnmatchcase(tool.original_name, pattern) for pattern in own
        )
