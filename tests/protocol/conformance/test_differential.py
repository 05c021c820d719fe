"""Every tool, prompt and resource of the fixture, directly and through Armory: the same results.

A client of each era asks the fixture itself, then the gateway with the upstream pinned to each
era. Between sides of one era results are equal but for what belongs to the hop (who the server
is, sealed state); across eras also but for what only one of the eras has.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import aiohttp
import pytest

from armory.testing.clients.talker import CompletedRequest, Talker
from armory.testing.processes import GatewayProcess

pytestmark = pytest.mark.anyio
Era = Literal["modern", "legacy"]
ERAS: list[Era] = ["modern", "legacy"]
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
ONE_ERA_ONLY = ("resultType", "ttlMs", "cacheScope")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "test_sampling": {"prompt": "What is the capital of France?"},
    "test_elicitation": {"message": "Who are you?"},
    "json_schema_2020_12_tool": {"contactMethod": "phone", "phone": "1"},
    "test_mirrored_headers": {"query": "q"},
    "test_prompt_with_arguments": {"arg1": "a", "arg2": "b"},
    "test_prompt_with_embedded_resource": {"resourceUri": "test://example-resource"},
}
CHANGES = ("test_trigger_tool_change", "test_trigger_prompt_change")


def shown(told: CompletedRequest, *, across: bool) -> dict[str, Any]:
    """What must be equal of a finished request."""
    message = json.loads(json.dumps(told.message))
    result = message.get("result")
    if isinstance(result, dict):
        meta = result.get("_meta", {})
        meta.pop(SERVER_INFO, None)
        if not meta:
            result.pop("_meta", None)
        if across:
            for name in ONE_ERA_ONLY:
                result.pop(name, None)
    asked = [json.dumps(question, sort_keys=True) for question in told.asked]
    return {
        "message": message,
        "asked": sorted(asked),  # several at once have no order
        "notes": told.notes,
        "status": told.status,
    }


async def compare(direct: Talker, through: Talker, across: bool, *request: Any) -> CompletedRequest:
    """Put one request to both; gives the direct answer."""
    wanted = await direct.tell(*request)
    got = await through.tell(*request)
    assert shown(got, across=across) == shown(wanted, across=across), request
    return wanted


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("client", ERAS)
@pytest.mark.timeout(120)
async def test_the_whole_surface_is_the_same(
    http: aiohttp.ClientSession,
    fixture_url: str,
    gateway: GatewayProcess,
    client: Era,
    upstream: Era,
) -> None:
    direct = Talker(http, fixture_url, client)
    through = Talker(http, f"{gateway.url}/mcp/{upstream}", client)
    across = client != upstream

    listed = await compare(direct, through, across, "tools/list")
    names = [tool["name"] for tool in listed.message["result"]["tools"]]
    assert len(names) >= 25
    for name in names:
        if name not in CHANGES:
            call = {"name": name, "arguments": ARGUMENTS.get(name, {})}
            await compare(direct, through, across, "tools/call", call)

    prompts = await compare(direct, through, across, "prompts/list")
    for prompt in prompts.message["result"]["prompts"]:
        name = prompt["name"]
        call = {"name": name, "arguments": ARGUMENTS.get(name, {})}
        await compare(direct, through, across, "prompts/get", call)

    resources = await compare(direct, through, across, "resources/list")
    await compare(direct, through, across, "resources/templates/list")
    uris = [resource["uri"] for resource in resources.message["result"]["resources"]]
    for uri in [*uris, "test://template/42/data"]:
        await compare(direct, through, across, "resources/read", {"uri": uri})

    reference = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    argument = {"name": "arg1", "value": "pa"}
    completion = {"ref": reference, "argument": argument}
    await compare(direct, through, across, "completion/complete", completion)


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "test://nowhere"}),
        ("tools/call", {"name": "no_such_tool", "arguments": {}}),
        ("prompts/get", {"name": "no_such_prompt"}),
        ("no/such/method", {}),
    ],
)
async def test_refusals_have_the_same_code(
    http: aiohttp.ClientSession,
    fixture_url: str,
    gateway: GatewayProcess,
    client: Era,
    upstream: Era,
    method: str,
    params: dict[str, Any],
) -> None:
    wanted = await Talker(http, fixture_url, client).tell(method, params)
    got = await Talker(http, f"{gateway.url}/mcp/{upstream}", client).tell(method, params)
    assert got.message["error"]["code"] == wanted.message["error"]["code"]
    assert got.status == wanted.status


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("client", ERAS)
async def test_without_capabilities_nobody_is_asked(
    http: aiohttp.ClientSession, gateway: GatewayProcess, client: Era, upstream: Era
) -> None:
    talker = Talker(http, f"{gateway.url}/mcp/{upstream}", client, capabilities={})
    for tool in ("test_elicitation", "test_sampling", "test_input_required_result_list_roots"):
        told = await talker.tell("tools/call", {"name": tool, "arguments": {}})
        assert told.asked == [], tool
        failed = "error" in told.message or told.message["result"].get("isError")
        assert failed, told.message
