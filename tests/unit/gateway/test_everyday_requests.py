"""Everyday requests over the tools of thirty real servers, with the embedder that ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway, Services
from armory.gateway.settings import GatewaySettings
from armory.retrieval.registry import build_retriever
from armory.testing.front import ScriptedPool, ScriptedUpstream
from tests.unit.gateway.conftest import Bench, echo
from tests.unit.gateway.everyday.further import FURTHER
from tests.unit.gateway.everyday.requests import REQUESTS

pytestmark = pytest.mark.anyio
SERVERS = Path(__file__).parent / "everyday" / "servers.json"
RIGHT, FURTHER_RIGHT = 47, 80


def recorded(tool: dict[str, Any]) -> dict[str, Any]:
    """A definition as a server lists it."""
    texts = tool["parameters"].items()
    properties = {name: {"type": "string", "description": text} for name, text in texts}
    schema = {"type": "object", "properties": properties}
    return {"name": tool["name"], "description": tool["description"], "inputSchema": schema}


async def test_the_right_server_comes_first_and_no_search_ends_empty() -> None:
    servers = json.loads(SERVERS.read_text(encoding="utf-8"))
    assert (len(servers), len(REQUESTS), len(FURTHER)) == (30, 50, 99)
    assert {right for _, some in (*REQUESTS, *FURTHER) for right in some} <= servers.keys()
    upstreams = {
        key: ScriptedUpstream(
            ServerLists(
                tools=[recorded(tool) for tool in server["tools"]],
                info=server["info"],
                instructions=server["instructions"],
                capabilities={"tools": {}},
            ),
            echo,
        )
        for key, server in servers.items()
    }
    pool = ScriptedPool(upstreams)
    retriever = build_retriever()
    gateway = Gateway(pool, retriever, settings=GatewaySettings(), services=Services())
    catalog = pool.catalog()
    await retriever.index(list(catalog.tools.values()))
    gateway.publish(catalog)
    bench = Bench(pool, retriever, gateway)  # pyright: ignore[reportArgumentType]
    for requests, least in ((REQUESTS, RIGHT), (FURTHER, FURTHER_RIGHT)):
        wrong: dict[str, Any] = {}
        for query, right in requests:
            called = await bench.call("search_tools", {"query": query})
            found = called["structuredContent"]
            listed = found["tools"] or found["unlikely"]
            assert listed, query
            first = listed[0]["name"]
            if first.partition("__")[0] not in right:
                wrong[query] = [entry["name"] for entry in listed[:4]]
        assert len(requests) - len(wrong) >= least, wrong
    await retriever.aclose()
