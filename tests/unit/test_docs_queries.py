"""The snippets of docs/queries.md: each brings its query, in the way that the page shows."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    WordRetriever,
    result,
    serving,
    tool,
)

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text(encoding="utf-8")
DEFERRING, _, _REST = PAGE.partition("## Clients that search by themselves")[2].partition("\n## ")


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of the snippets."""
    return re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL)


BLOCKS = blocks(_REST)
CONFIGURED: list[dict[str, Any]] = [
    json.loads(text)[key]["armory"]
    for kind, text in BLOCKS
    if kind == "json"
    for key in json.loads(text)
]
DEFERRAL: list[dict[str, Any]] = [json.loads(text) for _, text in blocks(DEFERRING)]
SENT = [server for server in CONFIGURED if "8080" in json.dumps(server)]
PYTHON = [text for kind, text in BLOCKS if kind == "python"]


async def _nothing(call: Call, owner: Owner) -> Reply:
    return result({})


@pytest.fixture
async def base() -> AsyncIterator[str]:
    tools = [
        tool("mail", "read and send mail"),
        tool("clock", "what time is it in tokyo?"),
        tool("paint", "draw a picture"),
    ]
    pool = ScriptedPool({"up": ScriptedUpstream(ServerLists(tools=tools), _nothing)})
    retriever = WordRetriever()
    gateway = Gateway(pool, retriever)
    catalog = pool.catalog()
    await retriever.index(list(catalog.tools.values()))
    gateway.publish(catalog)
    async with serving(gateway) as (url, _edge):
        yield url


@pytest.mark.parametrize("server", SENT, ids=lambda server: " ".join(server))
async def test_what_clients_are_configured_with_filters_their_list(
    base: str, server: dict[str, Any]
) -> None:
    shown = server.get("url") or next(a for a in server["args"] if a.startswith("http"))
    url = shown.replace("http://127.0.0.1:8080", base)
    body = modern_body(1, "tools/list")
    headers = {**modern_headers(body), **server.get("headers", {})}
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, json=body, headers=headers) as response,
    ):
        listed = (await messages(response))[-1]["result"]
    names = [entry["name"] for entry in listed["tools"]]
    assert "up__mail" in names
    assert "up__paint" not in names


def test_every_vendors_own_deferral_is_switched_off_in_its_snippet() -> None:
    claude_code, messages_api, responses = DEFERRAL
    assert claude_code == {"env": {"ENABLE_TOOL_SEARCH": "false"}}
    (toolset,), (server,) = messages_api["tools"], messages_api["mcp_servers"]
    assert toolset["mcp_server_name"] == server["name"]
    assert toolset["default_config"] == {"defer_loading": False}
    (remote,) = responses["tools"]
    assert remote["defer_loading"] is False


@pytest.mark.parametrize("url", re.findall(r"https://armory\.example\.com(\S+?)\"", DEFERRING))
async def test_and_its_url_filters_the_list(base: str, url: str) -> None:
    await test_what_clients_are_configured_with_filters_their_list(base, {"url": f"{base}{url}"})


@pytest.mark.parametrize("code", PYTHON)
async def test_the_python_snippet_filters_its_list(base: str, code: str) -> None:
    source = "async def snippet(URL):\n" + textwrap.indent(f"{code}\nreturn names", "    ")
    scope: dict[str, Any] = {}
    exec(source, scope)
    names = await scope["snippet"](f"{base}/mcp")
    assert "up__clock" in names
    assert "up__paint" not in names


def test_the_page_has_them_all() -> None:
    assert len(SENT) == 4
    assert len(PYTHON) == 1
    for name in (
        *("Claude Code", "Cursor", "VS Code", "Claude Desktop", "Inspector", "TypeScript"),
        *("FastMCP", "LangChain", "pydantic-ai", "OpenAI Agents", "LlamaIndex", "mcp-use"),
        *("Google ADK", "AutoGen", "Semantic Kernel", "Strands", "Haystack", "Agno", "smolagents"),
        *("Vercel AI SDK", "LangChain.js", "Mastra", "mcp-remote"),
    ):
        assert name in PAGE, name
    for server in CONFIGURED:
        if server not in SENT:  # it is spawned from anywhere
            assert server["command"].startswith("/")
            assert server["args"][-1].startswith("/")
