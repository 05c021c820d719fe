"""Learning from use, with real gateways: what calls teach, forgetting, and what a restart keeps."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.testing.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
ODD = "is it teatime at grandma's yet?"
TOOL = "notes__list_tags"
USERS = ("ann", "bob", "eve", "shy")


def ask(url: str, token: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """One modern MCP request."""
    info = {"name": "test", "version": "1"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": info,
        "io.modelcontextprotocol/clientCapabilities": {},
        **params.pop("_meta", {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    request = urllib.request.Request(url, json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    request.add_header("Accept", "application/json, text/event-stream")
    request.add_header("MCP-Protocol-Version", "2026-07-28")
    request.add_header("Mcp-Method", method)
    if "name" in params:
        request.add_header("Mcp-Name", params["name"])
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    if text.lstrip().startswith("{"):
        return json.loads(text)["result"]
    return json.loads(text.split("data:", 1)[1].splitlines()[0])["result"]


def found(url: str, token: str, query: str) -> dict[str, float]:
    """Tools that `search_tools` finds, with their scores."""
    params = {"name": "search_tools", "arguments": {"query": query, "threshold": 0}}
    result = ask(url, token, "tools/call", params)
    return {tool["name"]: tool["score"] for tool in result["structuredContent"]["tools"]}


def listed(url: str, token: str, query: str) -> set[str]:
    result = ask(url, token, "tools/list", {"_meta": {"dev.armory/query": query}})
    return {tool["name"] for tool in result["tools"]}


def test_what_calls_teach_is_found_forgotten_and_kept(
    serve: Callable[..., Any],
    armory: Callable[..., Any],
    demo_upstreams: dict[str, Any],
    tmp_path: Path,
) -> None:
    scopes = {"shy": ["no-learning"]}
    config = {
        "upstreams": {"notes": demo_upstreams["notes"], "time": demo_upstreams["time"]},
        "tool_rag": {"learn_from_use": True, "call_tool": True},
        "storage": {"url": f"sqlite:///{tmp_path / 'learned.db'}"},
        "security": {
            "allow_anonymous": False,
            "tokens": {
                u: {"token": f"token-of-{u}-12345", "scopes": scopes.get(u, [])} for u in USERS
            },
        },
    }
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    ann, bob, eve, shy = (f"token-of-{user}-12345" for user in USERS)

    def teach(url: str, token: str, times: int) -> None:
        for i in range(times):
            asked = {"name": "search_tools", "arguments": {"query": f"{ODD} {'really ' * i}"}}
            ask(url, token, "tools/call", asked)
            call = {"name": "call_tool", "arguments": {"name": TOOL, "arguments": {}}}
            assert not ask(url, token, "tools/call", call).get("isError")

    def kept() -> int:
        done = armory("usage", "forget", "--tool", "no__such", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["kept"]

    def said_with_the_call(url: str, token: str, times: int) -> None:
        for i in range(times):
            meta = {"dev.armory/query": f"{ODD} {'really ' * i}"}
            ask(url, token, "tools/call", {"name": TOOL, "arguments": {}, "_meta": meta})

    def over_rest(query: str, token: str) -> list[str]:
        asked = urllib.parse.urlencode({"ranker": "relevance", "query": query})
        request = urllib.request.Request(f"{served.base}/v1/retrieve_tools?{asked}")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return [tool["name"] for tool in json.load(answer)["tools"]]

    served = serve(config).searchable()
    url = served.url
    assert TOOL not in listed(url, eve, ODD)
    before = found(url, eve, ODD).get(TOOL, 0.0)
    ranked = over_rest("teatime yet", eve)
    assert TOOL not in ranked[:3]
    teach(url, shy, 3)
    teach(url, ann, 6)
    wait_until(lambda: kept() == 6)
    assert found(url, eve, ODD).get(TOOL, 0.0) <= before + 0.05, "one user alone moves nothing"
    said_with_the_call(url, bob, 4)
    wait_until(lambda: kept() == 10)
    wait_until(lambda: TOOL in listed(url, eve, ODD))
    assert next(iter(found(url, eve, ODD))) == TOOL
    again = over_rest("teatime yet", eve)
    assert TOOL in again[:3], f"an answer kept from before is not given: {ranked}, {again}"

    plain = "which tags do my notes have?"
    call = {"name": TOOL, "arguments": {}}
    assert TOOL in over_rest(plain, eve)
    ask(url, eve, "tools/call", dict(call))
    wait_until(lambda: kept() == 11)
    assert TOOL in listed(url, ann, f"{plain} please")
    ask(
        url, ann, "tools/call", {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}}
    )
    ask(url, ann, "tools/call", dict(call))
    wait_until(lambda: kept() == 12)

    assert served.stop() == 0
    url = serve(config).searchable().url
    wait_until(lambda: TOOL in listed(url, eve, ODD))
    assert armory("usage", "forget").returncode == 2
    gone = armory("usage", "forget", "--user", "token:ann", "--json")
    assert json.loads(gone.stdout) == {"forgotten": 7, "kept": 5}
    gone = armory("usage", "forget", "--tool", TOOL, "--json")
    assert json.loads(gone.stdout) == {"forgotten": 5, "kept": 0}
    wait_until(lambda: TOOL not in listed(url, eve, ODD))
    assert armory("usage", "forget", "--all").stdout == "forgot 0 uses, kept 0\n"
