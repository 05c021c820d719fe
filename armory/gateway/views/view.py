"""One snapshot prepared for serving: catalog, policy, settings, and what is derived from them.

Owns: `View`, swapped whole whenever one of the three changes. Never imports retrieval or a
transport; decides nothing about queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial

import msgspec
from cachetools import LRUCache
from msgspec import Raw

from armory.domain.catalog import Catalog, granted
from armory.domain.principal import Principal
from armory.domain.query import VisibleSet
from armory.domain.results import Selection
from armory.domain.tool import ListedRecord, ToolRecord
from armory.domain.visibility import Scope, VisibleCatalog
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.metatools.definitions import SEARCH, search_definition, servers_shown
from armory.gateway.requests import ClientRequest
from armory.gateway.settings import GatewaySettings, SetSpec
from armory.gateway.views.definitions import Form
from armory.gateway.views.listed import JOINED_BYTES, ListedBytes
from armory.gateway.views.names import ToolNames
from armory.gateway.views.servers import VisibleServers
from armory.gateway.views.tables import ToolTables
from armory.protocol.headers import declared_headers
from armory.protocol.rawjson import pack
from armory.security.policy import Policy

_encode = msgspec.json.encode
_VISIBLE_KEPT = 10_000


class View:
    """What the gateway serves at one moment.

    Args:
        catalog: the snapshot.
        policy: who may see and call what.
        settings: the gateway's settings.
        previous: the view before, whose bytes are taken over where nothing changed.
        joined_bytes: joined lists are kept up to so many bytes.

    Attributes:
        servers: which upstreams a caller sees anything of.
        instructions: what clients are told of the servers behind an endpoint, by the key of what
            they see; `Description` makes it.
    """

    def __init__(
        self,
        catalog: Catalog,
        policy: Policy,
        settings: GatewaySettings,
        previous: View | None = None,
        *,
        joined_bytes: int = JOINED_BYTES,
    ) -> None:
        self.catalog = catalog
        self.policy = policy
        self.settings = settings
        self.servers = VisibleServers(catalog, policy, settings.personal)
        self.tables = ToolTables.of(catalog, None if previous is None else previous.tables)
        self._prompts: dict[tuple[str, str], ListedRecord] = {
            (prompt.server, prompt.original_name): prompt for prompt in catalog.prompts.values()
        }
        listed = None if previous is None else previous.listed
        self.listed = ListedBytes(catalog, listed, joined_bytes=joined_bytes)
        self._pinned = LRUCache[str, tuple[str, ...]](_VISIBLE_KEPT)
        self.instructions = LRUCache[tuple[str, bool], str](_VISIBLE_KEPT)
        self._ttls = LRUCache[tuple[str, str], tuple[int, str]](_VISIBLE_KEPT)
        self._for_models = LRUCache[str, VisibleSet](_VISIBLE_KEPT)
        self._with_skills = LRUCache[str, VisibleSet](_VISIBLE_KEPT)
        self._headers: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {}
        self._endpoints = _endpoints(catalog, settings)
        self._named_before: ToolNames | None = vars(previous).get("names") if previous else None
        self._own_info = pack({"name": settings.server_name, "version": settings.server_version})

    # -- endpoints ---------------------------------------------------------------------------

    def endpoint(self, kind: str, name: str) -> Endpoint | None:
        """The endpoint `/mcp`, `/mcp/set/{name}` or `/mcp/{name}`; None when there is none."""
        return ALL if kind == "all" else self._endpoints.get((kind, name))

    def endpoint_for(self, principal: Principal, kind: str, name: str) -> Endpoint | None:
        """The same for a caller; None as well where the caller may see nothing of it."""
        endpoint = self.endpoint(kind, name)
        if endpoint is None or kind == "all" or not self.policy.restricts:
            return endpoint
        visible = self.policy.visible_catalog(self.catalog, principal, endpoint.scope)
        return endpoint if visible.anything else None

    def sets_for(self, principal: Principal) -> list[str]:
        """The sets of which a caller may see anything."""
        sets, sees = self.settings.sets, partial(self.policy.sees_any, self.catalog, principal)
        every = not self.policy.restricts
        return [name for name in sets if every or sees(self._endpoints["set", name].scope)]

    def set_spec(self, endpoint: Endpoint) -> SetSpec | None:
        """The configured set behind an endpoint."""
        return self.settings.sets.get(endpoint.name) if endpoint.kind == "set" else None

    def visible(self, request: ClientRequest) -> VisibleCatalog:
        """The visible set of the caller at its endpoint."""
        return self.policy.visible_catalog(self.catalog, request.principal, request.endpoint.scope)

    def info(self, endpoint: Endpoint) -> Raw:
        """`serverInfo` of an endpoint: the upstream's own on the transparent one."""
        if endpoint.transparent:
            lists = self.catalog.servers.get(endpoint.name)
            if lists is not None and lists.info:
                return pack(lists.info)
        return self._own_info

    # -- resolving ---------------------------------------------------------------------------

    def tool_at(self, server: str, original: str) -> ToolRecord | None:
        """The tool with the original name `original` of a server, whoever may see it."""
        return self.tables.originals.get((server, original))

    def prompt_at(self, server: str, original: str) -> ListedRecord | None:
        """The prompt with the original name `original` of a server, whoever may see it."""
        return self._prompts.get((server, original))

    def tool(self, request: ClientRequest, name: str) -> ToolRecord | None:
        """The tool that the client calls `name`; None when it may not see one."""
        record = self.tool_named(request, name)
        return record if record is not None and self.shows(request, record) else None

    def tool_named(self, request: ClientRequest, name: str) -> ToolRecord | None:
        """The tool that is called `name` at the client's endpoint, whether it may see it or not."""
        endpoint = request.endpoint
        if endpoint.transparent:
            return self.tool_at(endpoint.name, name)
        return self.catalog.tools.get(name)

    def shows(self, request: ClientRequest, tool: ToolRecord) -> bool:
        """Whether the client may see a tool of the catalog."""
        return request.endpoint.scope.has_tool(
            tool.server, tool.name
        ) and self.policy.allows_listed(request.principal, tool)

    def prompt(self, request: ClientRequest, name: str) -> ListedRecord | None:
        """The prompt that the client calls `name`; None when it may not see one."""
        endpoint = request.endpoint
        if endpoint.transparent:
            record = self.prompt_at(endpoint.name, name)
        else:
            record = self.catalog.prompts.get(name)
        if record is None or not endpoint.scope.has_server(record.server):
            return None
        return record if self.policy.allows_listed(request.principal, record) else None

    def may_read(self, request: ClientRequest, server: str, uri: str) -> bool:
        """Whether the caller may use the resource with the original URI `uri` of `server`."""
        return (
            server in self.catalog.servers
            and request.endpoint.scope.has_server(server)
            and self.policy.allows_uri(request.principal, server, uri)
        )

    def headers_of(self, record: ToolRecord) -> dict[str, tuple[tuple[str, ...], str]]:
        """The `Mcp-Param-*` headers of a tool (see `declared_headers`)."""
        headers = self._headers.get(record.name)
        if headers is None:
            headers = self._headers[record.name] = declared_headers(record.input_schema)
        return headers

    def pinned(self, visible: VisibleCatalog) -> tuple[str, ...]:
        """The visible tools that every listing has, in catalog order."""
        pinned = self._pinned.get(visible.tools.key)
        if pinned is None:
            settings, seen = self.settings, visible.tools.names
            pinned = ()
            if settings.pin or settings.server_pins:
                tools = self.catalog.tools.items()
                pinned = tuple(name for name, tool in tools if name in seen and settings.pins(tool))
            self._pinned[visible.tools.key] = pinned
        return pinned

    def lacks(self, request: ClientRequest) -> str | None:
        """A text about what the caller should see and cannot at the moment."""
        return None

    def lists_failure(self, server: str) -> str:
        """Why a caller's own lists of an upstream could not be fetched; "": no failure."""
        return ""

    # -- searching ---------------------------------------------------------------------------

    @cached_property
    def names(self) -> ToolNames:
        """The tools by what they are called."""
        before, self._named_before = self._named_before, None
        if before is not None and before.are_of(self.catalog):
            return before
        return ToolNames(self.catalog, before)

    def searchable(self, visible: VisibleCatalog, *, kept: bool = True) -> VisibleSet:
        """The tools that a search may find (those that models may call), by their names in the
        index.

        Args:
            visible: what the caller sees.
            kept: whether it is asked again; false where it was made for one request.
        """
        tools = visible.tools
        apps = self.tables.apps
        if not apps or apps.isdisjoint(tools.names):
            return tools
        if not kept:
            return VisibleSet(tools.names - apps)
        found = self._for_models.get(tools.key)
        if found is None:
            found = VisibleSet(tools.names - apps, f"{tools.key}/models")
            self._for_models[tools.key] = found
        return found

    def with_skills(self, searched: VisibleSet, visible: VisibleCatalog) -> VisibleSet:
        """The same with the skills that the caller sees; cached per visible set."""
        found = self._with_skills.get(searched.key) if searched.key else None
        if found is None:
            found = VisibleSet(searched.names | visible.skills, f"{searched.key}/skills")
            if searched.key:
                self._with_skills[searched.key] = found
        return found

    def nearest(self, request: ClientRequest, name: str, also: Iterable[str]) -> list[str]:
        """The names most similar to an unknown one, of those that the caller may use."""
        seen = self.visible(request).tools.names - self.tables.apps
        return self.names.nearest(name, seen, also)

    def common(self, visible: VisibleCatalog) -> VisibleSet:
        """The part of the visible set that all callers have in common."""
        return self.searchable(visible)

    def named(self, selection: Selection) -> Selection:
        """The search result in the names of this view."""
        return selection

    # -- what a listing needs besides --------------------------------------------------------

    def search_json(self, request: ClientRequest, *, call_tool: bool) -> bytes:
        """The definition of `search_tools` for what the caller sees; cached per visible set."""
        visible = self.visible(request)

        def made() -> bytes:
            known = servers_shown(self.catalog, visible, self.tables.by_server)
            limits = {"chars": self.settings.query_chars, "top_k": self.settings.query_top_k}
            return _encode(search_definition(known, call_tool=call_tool, **limits))

        key = visible.tools.key, Form(request.era), f"{SEARCH}:{call_tool}"
        return self.listed.once(key, made)

    def cache_fields(self, method: str, request: ClientRequest) -> tuple[int, str]:
        """(`ttlMs`, `cacheScope`) of an unfiltered list, from what its upstreams allow."""
        servers, policy = self.servers.at(request.endpoint), self.policy
        if not policy.restricts:
            return granted(servers.values(), method)
        key = self.visible(request).tools.key, method
        found = self._ttls.get(key)
        if found is None:
            known = (lists for k, lists in servers.items() if policy.concerns(request.principal, k))
            found = self._ttls[key] = granted(known, method)[0], "private"
        return found


def _endpoints(catalog: Catalog, settings: GatewaySettings) -> dict[tuple[str, str], Endpoint]:
    endpoints: dict[tuple[str, str], Endpoint] = {}
    for name, spec in settings.sets.items():
        shown = f"{','.join(sorted(spec.servers))}:{','.join(spec.tools)}"
        scope = Scope(f"set:{name}:{shown}", frozenset(spec.servers), spec.tools)
        endpoints["set", name] = Endpoint("set", name, scope)
    for name in catalog.servers:
        scope = Scope(f"server:{name}", frozenset((name,)))
        endpoints["server", name] = Endpoint("server", name, scope)
    return endpoints
