"""The REST service with a made-up catalog, on a real port: for tests, examples and benchmarks.

Owns: assembling the parts without upstreams. Never used by the gateway itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from armory.accounts.registry import TOOLS
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.domain.catalog import Catalog, ServerLists, ToolRules
from armory.domain.catalog_builder import build_catalog
from armory.evaluation.marks import MarkedQueries
from armory.gateway.events import EventFanOut
from armory.gateway.gateway import Gateway, Services
from armory.observability.activity import Activity
from armory.observability.settings import ActivitySettings
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.ports import Embedder, UseMemory
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings
from armory.security.authentication import Authenticator, Scheme, StaticToken
from armory.security.policy import Policy, Rule
from armory.storage.cache import Cache, MemoryCache
from armory.storage.database import Database
from armory.tasks import spawn, stop
from armory.testing.serving import listen
from armory.upstreams.pool import Pool
from armory.web.app import make_app
from armory.web.binding import bind
from armory.web.console.pages import register_console
from armory.web.rest.api import register_rest
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.services import Agent, RestLimits, RestServices, UpstreamInfo
from armory.web.settings import ListenSettings

QUICK_END = ListenSettings(drain_timeout_s=1.0)
"""For servers of tests, which have nothing worth waiting for."""
ADMIN_TOKEN = "an-administrators-token"


@dataclass(slots=True)
class Service:
    """A running service.

    Attributes:
        url: where it is reached.
        accounts, policy, retriever: its parts.
        catalog: what it serves.
        gateway: the request path over it, which has no upstreams.
        follows_registry: whether tools that are registered over REST are indexed at once.
        rest: what its REST API is made of, once it runs.
    """

    url: str
    accounts: Accounts
    policy: Policy
    retriever: Retriever
    catalog: Catalog
    gateway: Gateway
    follows_registry: bool = True
    rest: RestServices | None = None

    async def publish(self, catalog: Catalog) -> None:
        """Serve another catalog."""
        await self.retriever.index(
            [*catalog.tools.values(), *self.accounts.registry.records.values()]
        )
        self.catalog = catalog
        self.gateway.publish(catalog)

    def follow_registry(self) -> None:
        """Index tools registered over REST whenever they change, while
        `follows_registry` is set.
        """

        async def changed(_value: str) -> None:
            if self.follows_registry:
                await self.publish(self.catalog)

        self.accounts.feed.subscribe(TOOLS, changed)


def catalog_of(
    servers: Mapping[str, Sequence[Mapping[str, Any]]],
    rules: Mapping[str, ToolRules] | None = None,
) -> Catalog:
    """A catalog of MCP tool objects by server."""
    lists = {key: ServerLists(tools=tools) for key, tools in servers.items()}
    return build_catalog(lists, rules)[0]


@asynccontextmanager
async def running_service(
    url: str,
    catalog: Catalog,
    *,
    cache: Cache | None = None,
    settings: AccountSettings | None = None,
    rules: Iterable[Rule] = (),
    tokens: Sequence[StaticToken] = (),
    schemes: Sequence[Scheme] = (),
    embedder: Embedder | None = None,
    memory: UseMemory | None = None,
    agent: Agent | None = None,
    limits: RestLimits | None = None,
    rank: RankSettings | None = None,
    allow_anonymous: bool = False,
) -> AsyncGenerator[Service]:
    """A service on a free port; the token `ADMIN_TOKEN` administers it.

    Args:
        url: as `storage.url`.
        catalog: what it serves.
        cache: None: inside the process.
        settings: of accounts; None: enabled, without limits.
        rules: policies.
        tokens: static tokens beside the administrator's.
        schemes: beside API keys.
        embedder: None: the embedded model.
        memory: of past queries; None: nothing is remembered.
        agent: the retrieval agent.
        limits: of requests.
        rank: of rankers.
        allow_anonymous: whether requests without a credential are served.
    """
    serving: list[Service] = []
    accounts = Accounts(
        Database(url),
        cache or MemoryCache(),
        settings or AccountSettings(enabled=True),
        tools=lambda: (serving[0].catalog if serving else catalog).tools,
    )
    await accounts.open()
    packs = accounts.scopes if accounts.enabled else None
    retriever = _retriever(Experience(accounts.usage, memory), embedder, rank)
    policy = Policy(list(rules), packs)
    activity = Activity(settings=ActivitySettings(arguments=True))
    events = EventFanOut([accounts, activity])
    gateway = Gateway(Pool(), retriever, policy, services=Services(events=events, contents=True))
    service = Service("", accounts, policy, retriever, catalog, gateway)
    serving.append(service)
    labels = tempfile.TemporaryDirectory()

    service.follow_registry()
    await service.publish(catalog)
    admin = StaticToken("root", ADMIN_TOKEN, frozenset(("admin",)))
    authenticator = Authenticator(
        [admin, *tokens],
        [accounts.keys, *schemes],
        allow_anonymous=allow_anonymous,
        admission=packs,
    )
    services = RestServices(
        engine=retriever,
        accounts=accounts,
        authenticator=authenticator,
        catalog=lambda: service.catalog,
        policy=lambda: service.policy,
        upstreams=lambda: {key: UpstreamInfo("ready") for key in service.catalog.servers},
        stderr=lambda key: ["a line"] if key in service.catalog.servers else None,
        agent=agent,
        body_bytes=1 << 22,
        json_depth=64,
        api_keys=True,
        limits=limits or RestLimits(),
        live=LiveGateway(gateway, activity, MarkedQueries(Path(labels.name) / "labels")),
    )
    service.rest = services
    app = make_app(body_bytes=services.body_bytes)
    register_rest(app, services)
    register_console(app)
    task = spawn(accounts.run(), "accounts")
    listening = await listen(app, bind("127.0.0.1", 0), settings=QUICK_END)
    service.url = listening.url
    try:
        await accounts.feed.wait_trusted(10.0)
        yield service
    finally:
        await listening.close()
        await stop(task)
        await gateway.close()
        await retriever.aclose()
        await accounts.close()
        labels.cleanup()


def _retriever(
    experience: Experience, embedder: Embedder | None, rank: RankSettings | None
) -> Retriever:
    return Retriever(
        embedder or EmbeddedEmbedder(),
        ExactIndex(),
        make_rankers(),
        replace(RetrieverSettings(), rank=rank or RankSettings()),
        experience=experience,
    )
