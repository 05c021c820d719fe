"""Values that complete a template name nothing that policy bars."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.gateway.results import completions
from armory.gateway.results.completions import expanded
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving

pytestmark = pytest.mark.anyio
PUBLIC, REPO = "file:///public/{name}", "repo://{owner}/{name}{?ref}"
LISTS = ServerLists(
    templates=[{"uriTemplate": uri, "name": uri} for uri in (PUBLIC, REPO)],
    prompts=[{"name": "hi"}],
    capabilities={"resources": {}, "prompts": {}, "completions": {}},
)
RULE = Rule(
    allow=("files__*", "files+file:///public/*", "files+repo:*"),
    deny=("files+file:///public/secret*", "files+repo://evil/*", "files+repo://acme/hidden*"),
)
VALUES = ["a b", "secret", "secret-plans", "%73ecret", "../etc/passwd", "evil", "hidden", "acme"]


async def completes(_call: Call, _owner: Owner) -> Reply:
    return result({"completion": {"values": VALUES, "total": 99, "hasMore": False}})


def ref(uri: str, argument: str, **known: str) -> dict[str, Any]:
    asked = {
        "ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": argument, "value": ""},
    }
    return {**asked, "context": {"arguments": known}} if known else asked


async def test_values_that_lead_to_what_is_barred_are_left_out() -> None:
    pool = ScriptedPool({"files": ScriptedUpstream(LISTS, completes)})
    gateway = Gateway(pool, policy=Policy([RULE]))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:

        async def ask(path: str, params: dict[str, Any]) -> dict[str, Any]:
            body = modern_body(1, "completion/complete", params)
            async with http.post(f"{url}{path}", json=body, headers=modern_headers(body)) as said:
                return (await messages(said))[-1]["result"]["completion"]

        public = ["a b", "evil", "hidden", "acme"]
        for path, prefix in (("/mcp", "files+"), ("/mcp/files", "")):
            for params, shown in (
                (ref(PUBLIC, "name"), public),
                (ref(REPO, "owner"), [value for value in VALUES if value != "evil"]),
                (ref(REPO, "name", owner="acme"), [v for v in VALUES if v != "hidden"]),
                (ref(REPO, "name", owner="evil"), []),
                # nobody can tell what is completed
                (ref(PUBLIC, "other"), []),
                (ref("file:///public/a", "name"), []),
                (ref("file:///public/x{name}", "name"), []),
            ):
                params["ref"]["uri"] = f"{prefix}{params['ref']['uri']}"
                assert await ask(path, params) == {"values": shown, "hasMore": False}, params
        greeting = {"ref": {"type": "ref/prompt", "name": "files__hi"}, "argument": {"name": "x"}}
        whole = {"values": VALUES, "total": 99, "hasMore": False}
        assert await ask("/mcp", greeting) == whole
        gateway.reconfigure(policy=Policy())
        assert await ask("/mcp", ref(f"files+{PUBLIC}", "name")) == whole


async def test_what_is_judged_is_what_the_server_reads_which_of_two_it_may_be() -> None:
    asked: list[dict[str, Any]] = []

    async def notes(call: Call, _owner: Owner) -> Reply:
        asked.append({name: bytes(call.params[name]).decode() for name in ("argument", "context")})
        return result({"completion": {"values": ["hidden"]}})

    pool = ScriptedPool({"files": ScriptedUpstream(LISTS, notes)})
    gateway = Gateway(pool, policy=Policy([RULE]))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:
        params = ref(f"files+{REPO}", "first argument", first="evil")
        body = modern_body(1, "completion/complete", params)
        sent = json.dumps(body).replace('"name": "first argument"', '"name": "ref", "name": "name"')
        sent = sent.replace('"first": "evil"', '"owner": "evil", "\\u006fwner": "acme"')
        headers = {**modern_headers(body), "Content-Type": "application/json"}
        async with http.post(f"{url}/mcp", data=sent, headers=headers) as said:
            assert (await messages(said))[-1]["result"]["completion"]["values"] == []
    context = '{"arguments":{"owner":"acme"}}'
    assert asked == [{"argument": '{"name":"name","value":""}', "context": context}]


@pytest.mark.parametrize(
    ("template", "uri", "complete"),
    [
        ("a:{x}", "a:v/w", True),
        ("a:{x}/{z}", "a:v/w/{z}", False),
        ("a:{+x,y}", "a:v/w,1", True),
        ("a:{/x,y}", "a:/v/w/1", True),
        ("a:{x*}{.y:3}", "a:v/w.1", True),
        ("a:b{?x,z}", "a:b?x=v/w", False),
        ("a:b?y=1{&x}", "a:b?y=1&x=v/w", True),
        ("a:b{?z}{#z}", "a:b", False),
        ("a:{;x}", "a:;x=v/w", True),
    ],
)
def test_a_template_with_its_values_is_a_uri(template: str, uri: str, complete: bool) -> None:
    known = {"x": "v/w", "y": "1"}
    assert expanded(template, known, raw=True) == (uri, complete)


def test_a_value_is_written_as_a_uri_has_it() -> None:
    known = {"x": "v/w é"}
    assert expanded("a:{x}{+x}", known, raw=False) == ("a:v%2Fw%20%C3%A9v/w%20%C3%A9", True)


@pytest.mark.parametrize(
    "template",
    [
        f"x://{'{a}' * 33}",
        f"x://{{{'a,' * 33}a}}",
        f"x://{'y' * 2_048}{{a}}",
    ],
)
async def test_a_template_that_means_much_shows_nothing(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def counted(*given: Any, **how: Any) -> tuple[str, bool]:
        written.append(given[0])
        return expanded(*given, **how)

    monkeypatch.setattr(completions, "expanded", counted)
    assert await completed(template, ["v"] * 1_000) == []
    assert written == []


async def test_values_as_long_as_documents_are_not_written_out() -> None:
    assert await completed("x://{a}{a}{a}", ["short", "v" * 2_049]) == ["short"]
    known = {"b": "v" * 2_049}
    assert await completed("x://{a}{b}", ["short"], **known) == []


async def test_between_many_values_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, turns, written = asyncio.get_running_loop(), 0, Counter[int]()

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    def counted(*given: Any, **how: Any) -> tuple[str, bool]:
        written[turns] += 1
        return expanded(*given, **how)

    monkeypatch.setattr(completions, "expanded", counted)
    loop.call_soon(turn)
    assert len(await completed("x://{a}", [f"v{n}" for n in range(1_000)])) == 1_000
    assert max(written.values()) <= 2 * 16


async def completed(template: str, values: list[str], **known: str) -> list[str]:
    """The values that a caller is shown, whom a rule bars from something."""
    lists = ServerLists(
        templates=[{"uriTemplate": template, "name": "t"}],
        capabilities={"resources": {}, "completions": {}},
    )

    async def answer(_call: Call, _owner: Owner) -> Reply:
        return result({"completion": {"values": values}})

    pool = ScriptedPool({"files": ScriptedUpstream(lists, answer)})
    rule = Rule(allow=("files__*", "files+x:*"), deny=("files+x://hidden*",))
    gateway = Gateway(pool, policy=Policy([rule]))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:
        body = modern_body(1, "completion/complete", ref(f"files+{template}", "a", **known))
        async with http.post(f"{url}/mcp", json=body, headers=modern_headers(body)) as said:
            found: list[str] = (await messages(said))[-1]["result"]["completion"]["values"]
            return found
