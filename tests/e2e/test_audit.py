"""Every request through a gateway is in the audit, as who came and how it ended."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from armory.cli.main import cli
from armory.config import load_text
from armory.runtime import open_runtime
from armory.testing.clients.raw import LegacyClient, modern_body, modern_headers
from armory.testing.identity import IdentityProvider
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-some-length"
KNOWN = {"tokens": {"ci": {"token": TOKEN, "user": "ada"}}}


class Answer(msgspec.Struct):
    result: msgspec.Raw


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@asynccontextmanager
async def gateway(
    folder: Path, url: str, *, security: Mapping[str, Any] = KNOWN, **audit: str
) -> AsyncGenerator[str]:
    config = {
        "upstreams": {"web": {"url": url}},
        "tool_rag": {"enabled": False},
        "security": dict(security),
        "observability": {"audit": audit},
    }
    (folder / "armory.yaml").write_text(yaml.safe_dump(config))
    loaded = load_text(
        yaml.safe_dump(config),
        path=folder / "armory.yaml",
        environ={"ARMORY_HOME": str(folder / "home")},
    )
    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await runtime.searchable()
        assert runtime.listening is not None
        yield runtime.listening.url


async def armory(folder: Path, *arguments: str) -> tuple[int, Any]:
    found = await asyncio.to_thread(  # a command has an event loop of its own
        CliRunner().invoke,
        cli,
        ["audit", *arguments, "--json", "--config", str(folder / "armory.yaml")],
        env={"ARMORY_HOME": str(folder / "home")},
    )
    return found.exit_code, json.loads(found.stdout)


@pytest.mark.parametrize("to", ["audit.jsonl", "database"])
async def test_every_request_is_recorded(tmp_path: Path, to: str) -> None:
    async with (
        HttpUpstream() as upstream,
        gateway(tmp_path, upstream.url, to=to, arguments="hash", results="hash") as url,
        aiohttp.ClientSession() as http,
    ):
        answers: list[Any] = []

        async def ask(method: str, token: str = TOKEN, at: str = "/mcp", **params: Any) -> int:
            body = modern_body(1, method, params)
            headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
            async with http.post(url + at, json=body, headers=headers) as answer:
                answers.append(await answer.read())
                return answer.status

        await ask("tools/call", name="web__who", arguments={"secret": 1})
        await ask("tools/call", name="web__fail", arguments={})
        await ask("tools/call", name="web__error", arguments={})
        await ask("tools/call", name="web__nothing", arguments={})
        upstream.fail_with = 500
        await ask("tools/call", name="web__who", arguments={})
        upstream.fail_with = None
        await ask("tools/list")
        await ask("resources/read", uri="web+mem://one")
        assert await ask("tools/list", token="wrong") == 401
        assert await ask("tools/list", at="/mcp/nowhere") == 404
        assert await ask("tools/list", token="wrong", at="/mcp/nowhere") == 401
    code, found = await armory(tmp_path)
    assert code == 0
    calls = [record for record in found if not record["method"].startswith("armory/")]
    told = [
        (r["who"], r["method"], r["tool"], r["upstream"], r["outcome"], r["code"]) for r in calls
    ]
    assert told == [
        ("ada", "tools/call", "web__who", "web", "ok", None),
        ("ada", "tools/call", "web__fail", "web", "tool_error", None),
        ("ada", "tools/call", "web__error", "web", "error", "-32050"),
        ("ada", "tools/call", "web__nothing", None, "refused", "-32602"),
        ("ada", "tools/call", "web__who", "web", "error", "upstream_unavailable"),
        ("ada", "tools/list", None, None, "ok", None),
        ("ada", "resources/read", "web+mem://one", "web", "ok", None),
        ("127.0.0.1", "", None, None, "denied", "http_401"),
        ("ada", "", None, None, "denied", "http_404"),
        ("127.0.0.1", "", None, None, "denied", "http_401"),
    ]
    first, known, unknown = calls[0], *calls[-2:]
    assert (first["credential"], first["endpoint"]) == ("token:ci", "/mcp")
    assert (known["credential"], known["endpoint"]) == ("token:ci", "/mcp/nowhere")
    assert unknown["credential"] == "none"
    assert first["arguments"] == sha256(b'{"secret": 1}')
    assert first["result"] == sha256(bytes(msgspec.json.decode(answers[0], type=Answer).result))
    kept = [r["tool"] for r in calls if "result" in r]
    assert kept == ["web__who", "web__fail", "web__who", "web+mem://one"]  # those with a result
    assert first["ms"] > 0
    assert (await armory(tmp_path, "--tool", "web__f*"))[1][0]["tool"] == "web__fail"
    code, verdict = await armory(tmp_path, "verify")
    assert (code, verdict["whole"], verdict["open"]) == (0, True, [])


async def test_what_a_transport_refuses_by_itself_is_recorded(tmp_path: Path) -> None:
    known = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    async with (
        HttpUpstream() as upstream,
        gateway(tmp_path, upstream.url, to="audit.jsonl") as url,
        aiohttp.ClientSession() as http,
    ):

        async def post(body: Any, at: str = "/mcp", **headers: str) -> int:
            data = body if isinstance(body, str) else json.dumps(body)
            every = {**known, "Accept": "application/json, text/event-stream", **headers}
            async with http.post(url + at, data=data, headers=every) as answer:
                if answer.content_type != "text/event-stream":
                    await answer.read()
                return answer.status

        call = modern_body(1, "tools/call", {"name": "web__who", "arguments": {}})
        listen = modern_body(1, "subscriptions/listen", {"notifications": {}})
        legacy = LegacyClient(f"{url}/mcp", http, "2025-03-26", token=TOKEN)
        await legacy.initialize({})
        say = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert await post("{") == 400
        assert await post({**say, "params": [1]}, "/mcp/web") == 400
        assert await post(call, **{**modern_headers(call), "Mcp-Name": "web__fail"}) == 400
        assert await post(listen, **modern_headers(listen)) == 200
        assert await post(say, **{"Mcp-Session-Id": "no-such"}) == 404
        assert await post(say) == 400
        assert await post("{}", **{"Content-Type": "text/plain"}) == 415
        status, _ = await legacy.send([{**say, "id": []}, {**say, "method": "ping"}])
        assert status == 200
        assert await post(say, "/messages?session_id=no-such") == 404
    _, found = await armory(tmp_path)
    told = [
        (r["who"], r["endpoint"], r["method"], r["outcome"], r["code"])
        for r in found
        if not r["method"].startswith("armory/")
    ]
    assert told == [
        ("ada", "/mcp", "initialize", "ok", None),
        ("ada", "/mcp", "", "refused", "-32700"),
        ("ada", "/mcp/web", "", "refused", "-32602"),
        ("ada", "/mcp", "tools/call", "refused", "-32020"),
        ("ada", "/mcp", "subscriptions/listen", "ok", None),
        ("ada", "/mcp", "", "refused", "http_404"),
        ("ada", "/mcp", "", "refused", "http_400"),
        ("ada", "/mcp", "", "refused", "http_415"),
        ("ada", "/mcp", "", "refused", "-32600"),
        ("ada", "/mcp", "", "refused", "http_404"),
    ]


async def test_what_is_done_over_rest_is_recorded_and_looking_is_not(tmp_path: Path) -> None:
    async with (
        HttpUpstream() as upstream,
        gateway(tmp_path, upstream.url, to="audit.jsonl", arguments="hash", results="hash") as url,
        aiohttp.ClientSession() as http,
    ):
        answers: list[bytes] = []

        async def ask(method: str, path: str, token: str = TOKEN, body: Any = None) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with http.request(method, url + path, json=body, headers=headers) as answer:
                answers.append(await answer.read())
                return answer.status

        called = {"arguments": {"secret": 1}}
        assert await ask("POST", "/v1/tools/web__who/call", body=called) == 200
        assert await ask("POST", "/v1/tools/web__fail/call", body={"arguments": {}}) == 200
        assert await ask("POST", "/v1/tools/web__nothing/call", body={"arguments": {}}) == 404
        assert await ask("GET", "/v1/tools") == 200
        assert await ask("POST", "/v1/reload") == 403
        assert await ask("GET", "/v1/tools", token="wrong") == 401
    _, found = await armory(tmp_path)
    told = [
        (r["who"], r["method"], r["tool"], r["upstream"], r["outcome"], r["code"])
        for r in found
        if not r["method"].startswith("armory/")
    ]
    call = "POST /v1/tools/{name}/call"
    assert told == [
        ("ada", call, "web__who", "web", "ok", None),
        ("ada", call, "web__fail", "web", "tool_error", None),
        ("ada", call, "web__nothing", None, "refused", "unknown_tool"),
        ("ada", "POST /v1/reload", None, None, "refused", "access_denied"),
        ("127.0.0.1", "GET /v1/tools", None, None, "denied", "authentication_failed"),
    ]
    first = next(r for r in found if r["method"] == call)
    assert (first["credential"], first["endpoint"]) == ("token:ci", "/v1/tools/web__who/call")
    assert first["arguments"] == sha256(b'{"secret": 1}')
    assert first["result"] == sha256(answers[0])
    assert [r["tool"] for r in found if "result" in r] == ["web__who", "web__fail"]


async def test_who_lacks_scopes_that_everybody_needs_is_named(tmp_path: Path) -> None:
    async with IdentityProvider() as provider:
        oauth = {"issuer": provider.issuer, "scopes": ["mcp:use"]}
        async with (
            gateway(tmp_path, "http://127.0.0.1:9", security={"oauth": oauth}, to="a.jsonl") as url,
            aiohttp.ClientSession() as http,
        ):
            token = provider.sign(aud=f"{url}/mcp", scope="mcp:read")
            body = modern_body(1, "tools/list")
            headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answer:
                assert answer.status == 403
            async with http.get(f"{url}/v1/tools", headers=headers) as answer:
                assert answer.status == 403
    _, found = await armory(tmp_path)
    told = [(r["who"], r["endpoint"], r["outcome"], r["code"]) for r in found if r["endpoint"]]
    assert told == [
        ("ann", "/mcp", "denied", "http_403"),
        ("ann", "/v1/tools", "refused", "insufficient_scope"),
    ]


async def test_one_name_finds_a_tool_wherever_it_was_called(tmp_path: Path) -> None:
    async with (
        HttpUpstream() as upstream,
        gateway(tmp_path, upstream.url, to="audit.jsonl") as url,
        aiohttp.ClientSession() as http,
    ):
        upstream.script.tools.append({"name": "call_tool", "inputSchema": {"type": "object"}})

        async def ask(path: str, method: str, **params: Any) -> None:
            body = modern_body(1, method, params)
            headers = {**modern_headers(body), "Authorization": f"Bearer {TOKEN}"}
            async with http.post(url + path, json=body, headers=headers) as answer:
                await answer.read()

        for path, before in (("/mcp", "web__"), ("/mcp/web", "")):
            await ask(path, "tools/call", name=f"{before}who", arguments={})
            await ask(path, "tools/call", name=f"{before}no.such", arguments={})
            await ask(path, "prompts/get", name=f"{before}greet")
        await ask("/mcp/web", "tools/call", name="call_tool", arguments={"name": "web__who"})
        await ask("/mcp", "resources/read", uri="web+mem://one")
        await ask("/mcp/web", "resources/read", uri="mem://one")
    _, found = await armory(tmp_path, "--tool", "web*")
    assert [(r["endpoint"], r["tool"]) for r in found] == [
        ("/mcp", "web__who"),
        ("/mcp", "web__no.such"),
        ("/mcp", "web__greet"),
        ("/mcp/web", "web__who"),
        ("/mcp/web", "web__no_such"),
        ("/mcp/web", "web__greet"),
        ("/mcp/web", "web__call_tool"),
        ("/mcp", "web+mem://one"),
        ("/mcp/web", "web+mem://one"),
    ]


async def test_a_changed_file_is_told_with_its_record(tmp_path: Path) -> None:
    async with HttpUpstream() as upstream, gateway(tmp_path, upstream.url, to="audit.jsonl"):
        pass
    file = tmp_path / "audit.jsonl"
    file.write_text(file.read_text().replace("armory/audit.closed", "armory/audit.opened"))
    code, verdict = await armory(tmp_path, "verify")
    assert (code, verdict["whole"], verdict["at"]) == (1, False, 2)
    assert verdict["problem"] == "record 2 was changed: its hash does not fit it"


@pytest.mark.parametrize("to", ["audit.jsonl", "database"])
async def test_a_running_gateways_audit_is_read_by_its_administrators(
    tmp_path: Path, to: str
) -> None:
    admin = "an-administrators-token"
    config = {
        "tool_rag": {"enabled": False},
        "security": {
            "tokens": {
                "ci": {"token": TOKEN, "user": "ada"},
                "boss": {"token": admin, "scopes": ["admin"]},
            }
        },
        "observability": {"audit": {"to": to}},
    }
    loaded = load_text(
        yaml.safe_dump(config),
        path=tmp_path / "armory.yaml",
        environ={"ARMORY_HOME": str(tmp_path / "home")},
    )

    async def read(token: str, *arguments: str) -> tuple[int, str]:
        command = ["audit", "--url", url, "--token", token, *arguments, "--json"]
        found = await asyncio.to_thread(CliRunner().invoke, cli, command)
        return found.exit_code, found.stdout if found.exit_code == 0 else repr(found.exception)

    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await runtime.searchable()
        assert runtime.listening is not None
        url = runtime.listening.url
        async with aiohttp.ClientSession() as http:
            for _ in range(3):
                body = modern_body(1, "tools/list", {})
                headers = {**modern_headers(body), "Authorization": f"Bearer {TOKEN}"}
                async with http.post(f"{url}/mcp", json=body, headers=headers) as answer:
                    assert answer.status == 200
            for since in ("2026", "2026-99-99"):
                params, bearer = {"since": since}, {"Authorization": f"Bearer {admin}"}
                async with http.get(f"{url}/v1/audit", params=params, headers=bearer) as answer:
                    assert (answer.status, (await answer.json())["parameter"]) == (422, "since")
        audit = runtime.observers.audit
        assert audit is not None
        await until(lambda: audit.written >= 3)
        code, text = await read(admin, "--who", "ad*", "--limit", "2")
        assert code == 0
        found = json.loads(text)
        assert [(r["who"], r["method"]) for r in found] == [("ada", "tools/list")] * 2
        assert found[0]["hash"] == found[1]["prev"]
        assert json.loads((await read(admin, "--since", "2999-01-01"))[1]) == []
        code, text = await read(TOKEN)
        assert code != 0
        assert "AccessDenied" in text
