"""A gateway over one scripted upstream, asked directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from multidict import CIMultiDict

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS, Principal
from armory.gateway.context import RequestContext, served_from
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.gateway import Gateway, Services
from armory.gateway.requests import ClientRequest
from armory.gateway.settings import GatewaySettings
from armory.gateway.subscription import Subscription
from armory.gateway.tasks.register import TaskRegister
from armory.protocol.link import (
    Answer,
    Call,
    Owner,
    Params,
    Reply,
)
from armory.protocol.versions import Era
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    WordRetriever,
    plain,
    raws,
    result,
    tool,
)


@dataclass
class NotingClient:
    """A client that notes what it hears and accepts what it is asked."""

    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log_level: str | None = None
    progress_token: Raw | None = None
    heard: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )

    async def notify(self, method: str, params: Params) -> None:
        self.heard.append((method, plain(params)))

    async def ask(self, method: str, params: Params) -> Answer:
        self.heard.append((method, plain(params)))
        return Answer(result=Raw(b"{}"))


@dataclass
class StandInSession:
    """A legacy session that listens to nothing."""

    revealed: set[str]
    subscription: Subscription = field(
        default_factory=lambda: Subscription(ANONYMOUS, ALL, lambda _method, _params: None)
    )
    id: str = "s"
    log_level: str | None = None

    @property
    def owner(self) -> Owner:
        return self.subscription.owner


@dataclass
class Bench:
    """The gateway, and ways to ask it."""

    pool: ScriptedPool
    retriever: WordRetriever
    gateway: Gateway
    register: TaskRegister = field(default_factory=TaskRegister)
    client: NotingClient = field(default_factory=NotingClient)

    def context(
        self,
        era: Era = "modern",
        endpoint: Endpoint = ALL,
        *,
        principal: Principal = ANONYMOUS,
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        url: dict[str, list[str]] | None = None,
        revealed: set[str] | None = None,
    ) -> RequestContext:
        session = StandInSession(revealed if revealed is not None else set())
        request = ClientRequest(
            principal=principal,
            client=self.client,
            era=era,
            version="",
            endpoint=endpoint,
            session=session if era == "legacy" else None,
            meta=raws(meta or {}),
            headers=CIMultiDict(headers or {}),
            url=url or {},
        )
        return served_from(request, self.gateway.view)

    async def tools(
        self, context: RequestContext, params: dict[str, Any] | None = None
    ) -> list[str]:
        asked = served_from(context, self.gateway.view)
        listed = read(await self.gateway.tool_lists.list(asked, raws(params or {})))
        return [entry["name"] for entry in listed["tools"]]

    async def call(self, name: str, arguments: Any = None, **more: Any) -> Any:
        params = {"name": name} | ({} if arguments is None else {"arguments": arguments})
        return read(await self.gateway.tool_calls.call(self.context(**more), raws(params)))


def read(reply: Reply) -> Any:
    assert reply.result is not None
    return msgspec.json.decode(reply.result)


async def echo(call: Call, owner: Owner) -> Reply:
    del owner
    return result({"method": call.method, **plain(call.params)})


@pytest.fixture
async def bench() -> Bench:
    lists = ServerLists(
        tools=[tool(f"tool{i}", f"number {i}") for i in range(6)],
        prompts=[{"name": "hi"}],
        resources=[{"uri": "file:///a"}],
        templates=[{"uriTemplate": "file:///{x}"}],
        info={"name": "up", "title": "Upstream", "description": "Counts. Really."},
        capabilities={"tools": {}},
    )
    pool = ScriptedPool({"up": ScriptedUpstream(lists, echo)})
    retriever = WordRetriever()
    register = TaskRegister()
    services = Services(tasks=register)
    gateway = Gateway(pool, retriever, settings=GatewaySettings(), services=services)
    catalog = pool.catalog()
    await retriever.index(list(catalog.tools.values()))
    gateway.publish(catalog)
    return Bench(pool, retriever, gateway, register)
