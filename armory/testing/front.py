"""A gateway with scripted upstreams, for tests of the front without any process behind it.

Owns: `ScriptedPool` (upstreams as functions), `WordRetriever` (search by shared words), and
`serving` (the HTTP edge on a free port). Never imports a real upstream transport.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Raw

from armory.domain.catalog import EMPTY, Catalog, ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.query import Query, VisibleSet
from armory.domain.results import KnownExplanation, Match, Selection
from armory.domain.tool import ToolRecord
from armory.errors import UpstreamUnavailable
from armory.gateway.gateway import Gateway
from armory.protocol.link import (
    Call,
    ClientChannel,
    Owner,
    Params,
    Reply,
)
from armory.protocol.versions import Era
from armory.security.authentication import Authenticator
from armory.testing.serving import listen
from armory.web.binding import bind
from armory.web.settings import ListenSettings
from armory.wire.http.edge import HttpEdge
from armory.wire.http.replicas import Replicas
from armory.wire.sessions.directory import ALIVE_S, Store
from armory.wire.settings import HttpSettings

Answering = Callable[[Call, Owner], Awaitable[Reply]]


def result(value: Any, era: Era = "legacy") -> Reply:
    """A reply with a result."""
    return Reply(result=Raw(msgspec.json.encode(value)), era=era)


def refused(code: int, message: str, data: Any = None, era: Era = "legacy") -> Reply:
    """A reply with an error."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return Reply(error=Raw(msgspec.json.encode(error)), era=era)


def tool(name: str, description: str, **more: Any) -> dict[str, Any]:
    """A tool definition."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


def plain(params: Mapping[str, Raw]) -> dict[str, Any]:
    """Raw parameters as Python values."""
    return {key: msgspec.json.decode(raw) for key, raw in params.items()}


FORM: dict[str, Any] = {
    "mode": "form",
    "message": "which zone?",
    "requestedSchema": {"type": "object", "properties": {"zone": {"type": "string"}}},
}


def raws(value: dict[str, Any]) -> dict[str, Raw]:
    """Python values as raw parameters."""
    return {key: Raw(msgspec.json.encode(item)) for key, item in value.items()}


async def asking(call: Call, owner: Owner) -> Reply:
    """A call to a legacy upstream that asks `FORM` twice while it runs."""
    del owner
    if call.client is None:
        raise ValueError("a call without a client has nobody to ask")
    zones: list[str] = []
    for _ in range(2):
        answer = await call.client.ask("elicitation/create", raws(FORM))
        if answer.error is not None:
            text = answer.error
            return result({"content": [{"type": "text", "text": str(text)}], "isError": True})
        zones.append(msgspec.json.decode(answer.result or b"{}")["content"]["zone"])
    return result({"content": [{"type": "text", "text": "+".join(zones)}]})


@dataclass
class ScriptedUpstream:
    """One upstream: its lists, its era, and a function that answers its calls."""

    lists: ServerLists
    answer: Answering
    era: Era = "legacy"
    lists_for: Callable[[Mapping[str, Any]], ServerLists] | None = None
    shakes_hands: bool = False


@dataclass
class ScriptedPool:
    """`gateway.ports.Pool` with scripted upstreams; records what it receives."""

    upstreams: dict[str, ScriptedUpstream] = field(default_factory=dict[str, ScriptedUpstream])
    calls: list[tuple[str, Owner, Call]] = field(default_factory=list[tuple[str, Owner, Call]])
    subscriptions: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    rooted: list[tuple[Owner, ClientChannel, Params]] = field(
        default_factory=list[tuple[Owner, ClientChannel, Params]]
    )
    levels: list[tuple[Owner, str]] = field(default_factory=list[tuple[Owner, str]])
    notified: list[tuple[str, Owner, str, Params]] = field(
        default_factory=list[tuple[str, Owner, str, Params]]
    )
    listed_for: list[tuple[str, Mapping[str, Any]]] = field(
        default_factory=list[tuple[str, Mapping[str, Any]]]
    )
    released: list[str] = field(default_factory=list[str])
    down: list[str] = field(default_factory=list[str])

    async def request(self, server: str, owner: Owner, call: Call) -> Reply:
        """Pass a call to the script."""
        self.calls.append((server, owner, call))
        self._known(server)
        return await self.upstreams[server].answer(call, owner)

    async def listen(self, server: str, owner: Owner, call: Call) -> Reply:
        """Pass it to the script as well."""
        return await self.request(server, owner, call)

    async def set_subscriptions(
        self, server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        """Record the subscriptions."""
        del again
        self.subscriptions[server, self.key(server, owner)] = uris

    async def notify(self, server: str, owner: Owner, method: str, params: Params) -> None:
        """Record the notification."""
        self.notified.append((server, owner, method, params))

    async def roots_changed(self, owner: Owner, client: ClientChannel, params: Params) -> None:
        """Record the event."""
        self.rooted.append((owner, client, params))

    def log_level_changed(self, owner: Owner, level: str) -> None:
        """Record the level."""
        self.levels.append((owner, level))

    async def fetch_lists(
        self, server: str, owner: Owner, capabilities: Mapping[str, Any] | None = None
    ) -> ServerLists:
        """The scripted lists, the same for everybody."""
        del owner, capabilities
        self._known(server)
        return self.upstreams[server].lists

    async def fetch_lists_for(
        self, server: str, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        """The lists scripted for these capabilities, or else those for everybody."""
        upstream = self.upstreams[server]
        assert handshake == (upstream.era == "modern")
        self.listed_for.append((server, capabilities))
        return upstream.lists_for(capabilities) if upstream.lists_for else upstream.lists

    async def settle(self, server: str, owner: Owner) -> None:
        """Nothing: the lists are always known."""

    def key(self, server: str, owner: Owner) -> str:
        """Sessions are per principal."""
        self._known(server)
        return owner.principal.key

    def announces(self, server: str, owner: Owner) -> bool:
        """False: it has no session that could notify."""
        del server, owner
        return False

    def era(self, server: str) -> Era | None:
        """As scripted."""
        return self.upstreams[server].era

    def may_shake_hands(self, server: str) -> bool:
        """As scripted."""
        upstream = self.upstreams[server]
        return upstream.era == "legacy" or upstream.shakes_hands

    def servers(self) -> list[str]:
        """The scripted ones, and those that are said to be down."""
        return [*self.upstreams, *self.down]

    async def release_session(self, session_id: str) -> None:
        """Record the end of a session."""
        self.released.append(session_id)

    def _known(self, server: str) -> None:
        if server not in self.servers():
            raise UpstreamUnavailable(f"there is no upstream {server!r}", upstream=server)

    def catalog(self, previous: Catalog = EMPTY) -> Catalog:
        """A snapshot of the scripted lists."""
        lists = {key: upstream.lists for key, upstream in self.upstreams.items()}
        return build_catalog(lists, previous=previous)[0]


class WordRetriever:
    """Scores a tool by the share of the query's words in its name and description."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self._tools: list[ToolRecord] = []

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> None:
        """Index these tools."""
        del outdated
        self._tools = list(tools)

    async def search(
        self, query: Query, visible: VisibleSet | None, *, explain: bool = False
    ) -> Selection:
        """The best matches first."""
        del explain
        self.queries.append(query)
        threshold = 0.5 if query.threshold is None else query.threshold
        matches: list[Match] = []
        for tool in self._tools:
            if visible is not None and tool.name not in visible.names:
                continue
            if query.servers is not None and tool.server not in query.servers:
                continue
            text = f"{tool.name} {tool.description}".lower()
            scores = [_share(words.lower().split(), text) for words in query.texts]
            score = max(scores)
            matches.append(
                Match(tool, score, score, score, KnownExplanation(reason="shared words"))
            )
        matches.sort(key=lambda match: -match.score)
        nearest = tuple(matches[:5])
        kept = [match for match in matches if match.score >= threshold][: query.top_k or 20]
        visible_count = len(self._tools) if visible is None else len(visible)
        top = kept[0].score if kept else 0.0
        nearest = () if kept else nearest
        return Selection(tuple(kept), visible_count, threshold, top_score=top, nearest=nearest)


def _share(words: Sequence[str], text: str) -> float:
    return sum(word in text for word in words) / len(words)


@asynccontextmanager
async def serving(
    gateway: Gateway,
    authenticator: Authenticator | None = None,
    settings: HttpSettings | None = None,
    store: Store | None = None,
    alive_s: float = ALIVE_S,
    connections: int | None = None,
) -> AsyncGenerator[tuple[str, HttpEdge]]:
    """The HTTP edge on a free port; yields its base URL and the edge.

    With a `store` it is one of several replicas that share it; one that has shown no sign of life
    for `alive_s` counts as gone.
    """
    bound = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.port}"
    replicas = Replicas(store, url, alive_s=alive_s) if store is not None else None
    authenticator = authenticator or Authenticator(allow_anonymous=True)
    edge = HttpEdge(gateway, authenticator, settings, replicas=replicas)
    app = web.Application()
    edge.register(app)
    bounds = ListenSettings(drain_timeout_s=1.0, connections=connections)
    listening = await listen(app, bound, settings=bounds, who_asks=edge.who_asks)
    await edge.start()
    try:
        yield url, edge
    finally:
        await edge.close()
        await listening.close()
