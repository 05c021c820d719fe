"""The suite's client scenarios through the gateway: boots Armory in front of the suite's server.

    python client_leg.py URL

The suite appends the URL of its own server and says in `MCP_CONFORMANCE_CONTEXT` what to call.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from armory.config import load_text
from armory.runtime import open_runtime
from armory.runtime.logins import log_in
from armory.testing.clients.talker import ANSWERS, Talker

CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
REDIRECT = "http://127.0.0.1:3456/callback"
SAMPLES: Mapping[str, Any] = {
    "string": "value",
    "integer": 2,
    "number": 2,
    "boolean": True,
    "array": [],
    "object": {},
}


async def visit(url: str) -> Mapping[str, str]:
    """What a person would do, whom the authorization server sends back without a question."""
    async with aiohttp.ClientSession() as http, http.get(url, allow_redirects=False) as answer:
        return dict(URL(answer.headers["Location"]).query)


def arguments_of(schema: Mapping[str, Any], listed: Mapping[str, Any]) -> dict[str, Any]:
    """Something for every required parameter; a `schema` is the focal tool's own."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    wanted: list[str] = schema.get("required") or []
    found: dict[str, Any] = {}
    for name in wanted:
        kind = str((properties.get(name) or {}).get("type"))
        found[name] = SAMPLES.get(kind, "value")
        if name == "schema":
            found[name] = listed["suite__json_schema_2020_12_tool"]["inputSchema"]
    return found


async def drive(url: str) -> None:
    """List everything, then call what the context names, else every tool."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    if scenario == "elicitation-sep1034-client-defaults":
        # The person accepts the form as it stands; the client fills in its defaults.
        defaults = {
            "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True,
        }  # fmt: skip
        answer = {"action": "accept", "content": defaults}
        ANSWERS["elicitation/create"] = answer
    suite: dict[str, Any] = {"url": url}
    if scenario.startswith("auth/client-credentials"):
        suite["auth"] = {
            "client_id": context["client_id"],
            "client_secret": context.get("client_secret"),
            "private_key": context.get("private_key_pem"),
            "signing_algorithm": context.get("signing_algorithm", "ES256"),
        }
    elif scenario.startswith("auth/"):
        suite["auth"] = {
            "type": "authorization_code",
            "client_id": context.get("client_id"),
            "client_secret": context.get("client_secret"),
            "client_metadata_url": CLIENT_METADATA,
        }
    config = {"upstreams": {"suite": suite}, "tool_rag": {"enabled": False}}
    with tempfile.TemporaryDirectory() as home:
        loaded = load_text(json.dumps(config), environ={**os.environ, "ARMORY_HOME": home})
        if scenario.startswith("auth/") and "client-credentials" not in scenario:
            await log_in(loaded, "suite", REDIRECT, visit)
        async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
            await runtime.ready()
            if "armory login" in runtime.supervisor.status()["suite"].error:
                await log_in(loaded, "suite", REDIRECT, visit)
                await runtime.relist("suite")
            assert runtime.listening is not None
            front = f"{runtime.listening.url}/mcp"
            async with aiohttp.ClientSession() as http:
                era = "legacy" if version and version < "2026" else "modern"
                talker = Talker(http, front, era)
                listed = (await talker.tell("tools/list")).message["result"]["tools"]
                named = {tool["name"]: tool for tool in listed}
                calls = [
                    (f"suite__{call['name']}", call["arguments"])
                    for call in context.get("toolCalls", ())
                ] or [
                    (name, arguments_of(tool["inputSchema"], named)) for name, tool in named.items()
                ]
                for name, arguments in calls:
                    told = await talker.tell("tools/call", {"name": name, "arguments": arguments})
                    if "armory login" in json.dumps(told.message):
                        await log_in(loaded, "suite", REDIRECT, visit)
                        call = {"name": name, "arguments": arguments}
                        told = await talker.tell("tools/call", call)
                    sys.stderr.write(f"{name}: {json.dumps(told.message)[:300]}\n")


if __name__ == "__main__":
    asyncio.run(drive(sys.argv[-1]))
