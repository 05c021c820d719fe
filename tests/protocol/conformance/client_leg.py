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
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import jwt
from aiohttp import web
from yarl import URL

from armory.config import load_text
from armory.runtime import open_runtime
from armory.runtime.logins import log_in
from armory.testing.clients.talker import ANSWERS, Talker
from armory.testing.listening import listening

CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
MANAGED = "auth/enterprise-managed-authorization"
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


@asynccontextmanager
async def employee(
    url: str, context: Mapping[str, Any]
) -> AsyncGenerator[tuple[dict[str, Any], dict[str, Any]]]:
    """(`auth` of the upstream, `security`) where somebody comes with the suite's own ID token.

    The suite publishes no keys for it, so the gateway asks whether it holds, here.
    """
    place = URL(url)
    known = place.with_path(f"/.well-known/oauth-protected-resource{place.path}")
    async with aiohttp.ClientSession() as http, http.get(known) as answer:
        named = (await answer.json())["authorization_servers"][0]
    claims = jwt.decode(context["idp_id_token"], options={"verify_signature": False})

    async def says(request: web.Request) -> web.Response:
        form = await request.post()
        held = form.get("token") == context["idp_id_token"]
        said = {name: claims[name] for name in ("sub", "aud", "exp")}
        return web.json_response({"active": True, **said} if held else {"active": False})

    app = web.Application()
    app.router.add_post("/introspect", says)
    runner, origin = await listening(app)
    auth = {
        "type": "jwt_bearer",
        "issuer": context["idp_issuer"],
        "client_id": context["idp_client_id"],
        "client_secret": "the suite wants none",
        "subject_token": "id_token",
        "audience": named,
        "audience_client_id": context["client_id"],
        "audience_client_secret": context["client_secret"],
    }
    asked = {"url": f"{origin}/introspect", "client_id": "armory", "client_secret": "a secret"}
    oauth = {"issuer": origin, "audience": [context["idp_client_id"]], "introspection": asked}
    try:
        yield auth, {"oauth": oauth}
    finally:
        await runner.cleanup()


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
    elif scenario.startswith("auth/") and scenario != MANAGED:
        suite["auth"] = {
            "type": "authorization_code",
            "client_id": context.get("client_id"),
            "client_secret": context.get("client_secret"),
            "client_metadata_url": CLIENT_METADATA,
        }
    async with AsyncExitStack() as stack:
        config: dict[str, Any] = {"upstreams": {"suite": suite}, "tool_rag": {"enabled": False}}
        headers: dict[str, str] = {}
        if scenario == MANAGED:
            found = await stack.enter_async_context(employee(url, context))
            suite["auth"], config["security"] = found
            headers["Authorization"] = f"Bearer {context['idp_id_token']}"
        home = stack.enter_context(tempfile.TemporaryDirectory())
        loaded = load_text(json.dumps(config), environ={**os.environ, "ARMORY_HOME": home})
        logs_in = suite.get("auth", {}).get("type") == "authorization_code"
        if logs_in:
            await log_in(loaded, "suite", REDIRECT, visit)
        runtime = await stack.enter_async_context(open_runtime(loaded, address=("127.0.0.1", 0)))
        await runtime.ready()
        if "armory login" in runtime.supervisor.status()["suite"].error:
            await log_in(loaded, "suite", REDIRECT, visit)
            await runtime.relist("suite")
        assert runtime.listening is not None
        http = await stack.enter_async_context(aiohttp.ClientSession(headers=headers))
        era = "legacy" if version and version < "2026" else "modern"
        talker = Talker(http, f"{runtime.listening.url}/mcp", era)
        for name, arguments in await calls_of(talker, context):
            told = await talker.tell("tools/call", {"name": name, "arguments": arguments})
            if "armory login" in json.dumps(told.message):
                await log_in(loaded, "suite", REDIRECT, visit)
                call = {"name": name, "arguments": arguments}
                told = await talker.tell("tools/call", call)
            sys.stderr.write(f"{name}: {json.dumps(told.message)[:300]}\n")


async def calls_of(talker: Talker, context: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(name, arguments) of each call: what the context names, else every tool."""
    listed = (await talker.tell("tools/list")).message["result"]["tools"]
    named = {tool["name"]: tool for tool in listed}
    return [
        (f"suite__{call['name']}", call["arguments"]) for call in context.get("toolCalls", ())
    ] or [(name, arguments_of(tool["inputSchema"], named)) for name, tool in named.items()]


if __name__ == "__main__":
    asyncio.run(drive(sys.argv[-1]))
