"""A resource that policy bars is barred however its URI is written, whatever is asked of it."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving

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
