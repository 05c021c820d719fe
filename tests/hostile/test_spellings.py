"""What policy bars is barred however its URI, or the parameter that names it, is written."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway.gateway import Gateway
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool

pytestmark = pytest.mark.anyio
BARRED = (
    "files+file:///public/../etc/passwd",
    "files+file:///public/%2e%2e/etc/passwd",
    "files+file:///public/%73ecret",
    "files+FILE:///public/secret",
    "files+file:///etc/passwd",
    "files+file:///public/.\t./etc/passwd",
    "files+file:///etc/passwd#///public/a",
    "files+file:///etc/passwd?x=///public/a",
    "files+file:///public/se\ncret",
    "files+ file:///public/secret",
    "files+file:///public/secret#part",
    "files+file:///public/secret?part",
    "files+file:///public/secret/",
    "files+file:///public\\secret",
)
DENIED = (
    "files+file:/public/secret",
    "files+file:public/secret",
    "files+file:\\\\/public\\secret",
    "files+http:inside/x",
    "files+http:\\inside/x",
    "files+http://inside:80/x",
    "files+http://INSIDE./x",
    "files+http://me@inside/x#part",
    "files+http://\uff49nside/x",
    "files+http://page",
    "files+mem://sec\tret",
    "files+file:///public/.. ",
)


async def opens_everything(call: Call, _owner: Owner) -> Reply:
    contents = [{"uri": "file:///x", "text": "what was in it"}]
    return result({"contents": contents, "completion": {"values": []}})


def test_what_one_rule_denies_is_denied_in_every_spelling() -> None:
    barred = ("file:///public/secret", "http://inside/*", "http://page/", "mem://secret")
    policy = Policy([Rule(allow=("*",), deny=tuple(f"files+{uri}" for uri in barred))])
    for exposed in DENIED:
        assert not policy.allows_uri(ANONYMOUS, "files", exposed.removeprefix("files+")), exposed
    for uri in ("http://inside.example/x", "http://other:81/", "mem://secrets", "doc://a#part"):
        assert policy.allows_uri(ANONYMOUS, "files", uri), uri


async def test_other_spellings_open_nothing() -> None:
    lists = ServerLists(
        resources=[{"uri": "file:///public/a", "name": "a"}],
        capabilities={"resources": {"subscribe": True}, "completions": {}},
    )
    pool = ScriptedPool({"files": ScriptedUpstream(lists, opens_everything)})
    rule = Rule(allow=("files+*///public/*",), deny=("files+file:///public/secret",))
    gateway = Gateway(pool, policy=Policy([rule]))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            body = modern_body(1, method, params)
            async with http.post(f"{url}/mcp", json=body, headers=modern_headers(body)) as answer:
                return (await messages(answer))[-1]

        client = LegacyClient(f"{url}/mcp", http, "2025-11-25")
        await client.initialize({})
        assert "what was in it" in str(await ask("resources/read", uri="files+file:///public/a"))
        asked = len(pool.calls)
        for uri in BARRED:
            answers = [
                await ask("completion/complete", ref={"type": "ref/resource", "uri": uri}),
                await client.request("resources/read", {"uri": uri}),
                await client.request("resources/subscribe", {"uri": uri}),
            ]
            if uri.isprintable():  # a header repeats it
                answers.append(await ask("resources/read", uri=uri))
            for answer in answers:
                assert answer["error"]["message"] == f"unknown resource: {uri}"
        assert len(pool.calls) == asked
        assert not pool.subscriptions


OTHER_CASE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/call", {"name": "files__list", "Name": "wipe"}),
    ("tools/call", {"Arguments": {"all": True}, "name": "files__list"}),
    ("tools/call", {"name": "files__list", "tas\N{KELVIN SIGN}": {}}),
    ("tools/call", {"name\0": "wipe", "name": "files__list"}),
    ("prompts/get", {"name": "files__hello", "NAME": "secret"}),
    ("resources/read", {"uri": "files+file:///a", "URI": "file:///secret"}),
    ("resources/subscribe", {"uri": "files+file:///a", "Uri": "file:///secret"}),
    ("tasks/get", {"taskId": "files:1", "taskID": "2"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "files__hello", "Name": "secret"}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "files__hello"}, "Ref": {"type": "ref/prompt"}},
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "files__hello"},
            "argument": {"name": "a", "value": "b", "Name": "other"},
        },
    ),
)


@pytest.mark.parametrize(("method", "params"), OTHER_CASE)
async def test_parameters_in_another_case_reach_no_server(
    method: str, params: dict[str, Any]
) -> None:
    """Servers in Go, C# or C take `Name` for `name`, and often the last of the two."""
    lists = ServerLists(
        tools=[tool("list", "lists"), tool("wipe", "wipes")],
        prompts=[{"name": "hello"}, {"name": "secret"}],
        resources=[{"uri": "file:///a", "name": "a"}],
        capabilities={"resources": {"subscribe": True}, "completions": {}},
    )
    pool = ScriptedPool({"files": ScriptedUpstream(lists, opens_everything)})
    deny = ("files__wipe", "files__secret", "files+file:///secret")
    gateway = Gateway(pool, policy=Policy([Rule(allow=("*",), deny=deny)]))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:
        for path in ("/mcp", "/mcp/files"):
            if path != "/mcp":
                params = json.loads(json.dumps(params).replace("files__", "").replace("files+", ""))
            client = LegacyClient(f"{url}{path}", http, "2025-11-25")
            await client.initialize({})
            asked = len(pool.calls)
            answer = await client.request(method, params)
            assert answer["error"]["code"] == INVALID_PARAMS
            assert "is not known; expected '" in answer["error"]["message"]
            assert len(pool.calls) == asked
            assert not pool.subscriptions
            uri = "file:///a" if path != "/mcp" else "files+file:///a"
            assert "result" in await client.request("resources/read", {"uri": uri, "Other": 1})
