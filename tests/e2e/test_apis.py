"""Twenty descriptions of different shapes, their operations called through the gateway."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from armory.config import load_file
from armory.runtime import open_runtime
from armory.runtime.running import Runtime
from armory.testing.clients.raw import messages, modern_body, modern_headers

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
DATA = Path(__file__).parents[1] / "data" / "openapi"
JSON = "application/json"


@dataclass
class Echo:
    """An API that answers what it was asked."""

    asked: list[str] = field(default_factory=list[str])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        api, path = request.raw_path[1:].split("/", 1)
        path, _, query = path.partition("?")
        body = await request.read()
        self.asked.append(f"{request.method} /{api}/{path}")
        if path == "described":
            return web.Response(body=(DATA / "petstore.yaml").read_bytes())
        if path.startswith("status/"):
            return self.status(int(path.removeprefix("status/")))
        if path == "text":
            return web.Response(text=body.decode().upper())
        if path == "image":
            return web.Response(body=body, content_type="image/png")
        if path == "sum":
            return web.json_response([sum(json.loads(body))])
        headers = {"Link": '<http://x/pages?page=3&per=5>; rel="next"'} if api == "pages" else {}
        shown = ("authorization", "cookie", "content-type", "x-fixed", "x-list", "x-trace")
        sent = {k.lower(): v for k, v in request.headers.items() if k.lower() in shown}
        echoed = {"method": request.method, "path": f"/{path}", "query": query, "headers": sent}
        return web.json_response({**echoed, "body": body.decode()}, headers=headers)

    @staticmethod
    def status(code: int) -> web.Response:
        if code == 204:
            return web.Response(status=204)
        if code == 302:
            return web.Response(status=302, headers={"Location": "http://169.254.169.254/"})
        return web.json_response({"detail": f"because of {code}"}, status=code)


@dataclass
class Rig:
    runtime: Runtime
    url: str
    http: aiohttp.ClientSession
    echo: Echo

    async def result(self, method: str, params: Any = None) -> Any:
        body = modern_body(1, method, params)
        async with self.http.post(self.url, json=body, headers=modern_headers(body)) as response:
            assert response.status == 200, await response.text()
            answer = (await messages(response))[-1]
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.result("tools/call", {"name": name, "arguments": arguments})

    async def sent(self, name: str, **arguments: Any) -> Any:
        called = await self.call(name, **arguments)
        assert not called["isError"], called
        return called["structuredContent"]

    async def tools(self) -> dict[str, Any]:
        listed = await self.result("tools/list")
        return {tool["name"]: tool for tool in listed["tools"]}

    def dropped(self, key: str) -> dict[str, str]:
        lists = self.runtime.gateway.view.catalog.servers[key]
        return {entry.entry: entry.reason for entry in lists.dropped}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("openapi")
    echo = Echo()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", echo.answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    (folder / "none.yaml").write_text("openapi: 3.1.0\npaths: {/x: 7}\n")
    (folder / "old.json").write_text('{"swagger": "1.2", "paths": {}}')
    upstreams: dict[str, Any] = {
        file.stem: {"openapi": str(file), "base_url": f"{host}/{file.stem}"}
        for file in sorted(DATA.iterdir())
    }
    upstreams["headers"]["headers"] = {"X-Fixed": "mine", "Authorization": "Bearer api-key"}
    upstreams["query-key"]["base_url"] += "?appid=k%20y"
    upstreams["petstore"]["exclude"] = ["DELETE *"]
    upstreams["remote"] = {"openapi": f"{host}/remote/described", "include": ["list*"]}
    upstreams["old"] = {"openapi": "old.json", "base_url": host}
    upstreams["none"] = {"openapi": "none.yaml", "base_url": host}
    upstreams["gone"] = {"openapi": "not-there.yaml", "base_url": host}
    config = {
        "upstreams": upstreams,
        "storage": {"url": f"sqlite:///{folder}/armory.db", "cache_dir": str(folder / "cache")},
        "tool_rag": {"embedding_model": "embedded", "without_query": "all"},
        "observability": {"log_level": "error"},
    }
    file = folder / "armory.yaml"
    file.write_text(yaml.safe_dump(config))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        opened = open_runtime(load_file(file), address=("127.0.0.1", 0))
        runtime = await stack.enter_async_context(opened)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        )
        await runtime.searchable()
        assert runtime.listening is not None
        rig = Rig(runtime, f"{runtime.listening.url}/mcp", http, echo)
        yield rig


async def test_twenty_descriptions_and_three_that_are_none(rig: Rig) -> None:
    assert len(list(DATA.iterdir())) == 20
    up = rig.runtime.gateway.view.catalog.servers
    assert len(up) == 21
    status = rig.runtime.supervisor.status()
    reasons = {key: str(status[key]) for key in ("old", "none", "gone")}
    assert "Swagger 1.2" in reasons["old"]
    assert "no operation that can be called; /x" in reasons["none"]
    assert "not-there.yaml" in reasons["gone"]


async def test_operations_become_tools_with_their_schemas(rig: Rig) -> None:
    tools = await rig.tools()
    assert {name for name in tools if name.startswith("petstore__")} == {
        "petstore__listPets",
        "petstore__createPet",
    }
    pets = tools["petstore__listPets"]
    assert (pets["title"], pets["description"]) == ("List pets", "List pets")
    assert pets["annotations"]["readOnlyHint"] is True
    assert pets["inputSchema"]["properties"]["limit"] == {
        "type": "integer",
        "exclusiveMaximum": 100,
        "description": "How many",
    }
    pet = tools["petstore__createPet"]["inputSchema"]
    assert pet["required"] == ["body"]
    assert pet["properties"]["body"]["required"] == ["name"]
    assert pet["properties"]["body"]["properties"] == {
        "name": {"type": "string"},
        "tag": {"type": ["string", "null"], "enum": ["cat", "dog", None]},
    }
    assert "$ref" not in json.dumps(list(tools.values()))
    tree = tools["recursive__plant"]["inputSchema"]["properties"]["body"]["properties"]
    assert tree["children"]["items"] == {"type": "object", "description": "below it"}
    change = tools["refs__change"]["inputSchema"]["properties"]["body"]["properties"]
    assert change == {"to": {"type": "integer", "description": "the new one"}}
    vendor = tools["vendor__publish"]
    assert vendor["description"].startswith("Deprecated.")
    first, second = vendor["inputSchema"]["properties"]["body"]["allOf"]
    assert (first["required"], list(first["properties"])) == (["title"], ["title"])
    assert second["oneOf"][1]["properties"] == {"b": {"not": {}}}
    assert {"noids__get", "noids__get_users_by_user-id_posts"} <= tools.keys()
    assert {"duplicates__read", "duplicates__get_two"} <= tools.keys()
    assert [name for name in tools if name.startswith("remote__")] == ["remote__listPets"]


async def test_a_broken_operation_costs_itself_alone(rig: Rig) -> None:
    tools = await rig.tools()
    assert [name for name in tools if name.startswith("broken-parts__")] == ["broken-parts__good"]
    dropped = rig.dropped("broken-parts")
    for name, why in {
        "nowhere": "which is not there",
        "elsewhere": "another document, other.yaml",
        "undescribed": "{id}",
        "away": "servers of its own",
        "circle": "circle",
        "styled": "'spiral'",
        "GET /wrong": "no object",
        "/wrong-item": "no object",
    }.items():
        assert why in dropped[name], dropped
    assert len(dropped) == 8


async def test_parameters_travel_in_their_styles(rig: Rig) -> None:
    sent = await rig.sent("petstore__listPets", limit=5, tag=["a b", "c&d"])
    assert (sent["method"], sent["path"]) == ("GET", "/pets")
    assert sent["query"] == "limit=5&tag=a%20b&tag=c%26d"
    sent = await rig.sent("styles__paths", ids=["a/b", 2], more={"x": 1})
    assert sent["path"] == "/m;ids=a%2Fb;ids=2/l.x,1"
    sent = await rig.sent(
        "styles__queries",
        deep={"a": 1, "b": ["x", "y"]},
        pipes=["a", "b"],
        spaces=[1, 2],
        commas=["a", "b,c"],
        free="a/b?c",
        spread={"k": True, "l": 1.0},
    )
    assert sent["query"] == (
        "deep%5Ba%5D=1&deep%5Bb%5D=x&deep%5Bb%5D=y&pipes=a%7Cb&spaces=1%202&commas=a,b%2Cc"
        "&free=a/b?c&k=true&l=1"
    )
    sent = await rig.sent("jsonparam__find", where={"age": 3})
    assert sent["query"] == "where=%7B%22age%22%3A3%7D"
    sent = await rig.sent("collisions__collide", id="p", id_query="q", body="b", request_body={})
    assert (sent["path"], sent["query"], sent["body"]) == ("/c/p", "id=q&body=b", "{}")
    sent = await rig.sent("query-key__weather", city="Köln")
    assert sent["query"] == "appid=k%20y&city=K%C3%B6ln"
    tools = [n for n in await rig.tools() if n.startswith("unicode__")]
    sent = await rig.sent(tools[0], gr_e="ß/x")
    assert sent["path"] == "/stra%C3%9Fe/%C3%9F%2Fx"
    sent = await rig.sent("duplicates__write", id="1", v=2)
    assert (sent["method"], sent["query"]) == ("PUT", "v=2")


async def test_headers_of_the_configuration_win(rig: Rig) -> None:
    tools = await rig.tools()
    assert "Authorization" not in tools["headers__sendHeaders"]["inputSchema"]["properties"]
    given = {"X-Trace": "t", "X-List": [1, 2], "X-Fixed": "yours", "session": "a b"}
    sent = await rig.sent("headers__sendHeaders", **given)
    assert sent["headers"] == {
        "authorization": "Bearer api-key",
        "cookie": "session=a%20b",
        "x-fixed": "mine",
        "x-list": "1,2",
        "x-trace": "t",
    }


async def test_bodies_are_sent_in_the_form_that_the_description_names(rig: Rig) -> None:
    sent = await rig.sent("petstore__createPet", body={"name": "é"})
    assert (json.loads(sent["body"]), sent["headers"]["content-type"]) == ({"name": "é"}, JSON)
    sent = await rig.sent("form__getToken", body={"user": "a&b", "scopes": ["x", "y"]})
    assert sent["body"] == "user=a%26b&scopes=x&scopes=y"
    data = base64.b64encode(b"\x00file").decode()
    sent = await rig.sent("upload__uploadFile", body={"note": "hi", "meta": {"a": 1}, "file": data})
    boundary = sent["headers"]["content-type"].partition("boundary=")[2]
    parts = sent["body"].split(f"--{boundary}")
    assert [part.rpartition("\r\n\r\n")[2].strip("\r\n") for part in parts[1:4]] == [
        "hi",
        '{"a":1}',
        "\x00file",
    ]
    assert 'name="file"; filename="file"' in parts[3]
    sent = await rig.sent("vendor__publish", body={"title": "x"})
    assert sent["headers"]["content-type"] == "application/vnd.api+json"
    sent = await rig.sent("recursive__plant", body={"children": [{"children": []}]})
    assert json.loads(sent["body"]) == {"children": [{"children": []}]}
    sent = await rig.sent("refs__change", id=7, body={"to": 8})
    assert (sent["method"], sent["path"]) == ("PATCH", "/a/7")
    assert (await rig.sent("arrays__sum", body=[1, 2]))["result"] == [3]


async def test_answers_that_are_no_json(rig: Rig) -> None:
    text = await rig.call("text__shout", body="hé")
    assert text["content"] == [{"type": "text", "text": "HÉ"}]
    assert "structuredContent" not in text
    data = base64.b64encode(b"png").decode()
    image = await rig.call("binary__putImage", body=data)
    assert image["content"] == [{"type": "image", "data": data, "mimeType": "image/png"}]
    empty = await rig.call("errors__answerWith", code=204)
    assert empty["content"][0]["text"] == "HTTP 204 No Content, without content"
    page = await rig.call("pages__listPages", page=2)
    assert page["content"][1]["text"] == "The next page has the parameters page=3&per=5"


@pytest.mark.parametrize(("code", "said"), [(404, "Not Found"), (422, "422"), (500, "500")])
async def test_errors_are_results_that_say_so(rig: Rig, code: int, said: str) -> None:
    called = await rig.call("errors__answerWith", code=code)
    assert called["isError"]
    text = called["content"][0]["text"]
    assert text.startswith(f"HTTP {code}")
    assert said in text
    assert f"because of {code}" in text


async def test_redirects_and_an_api_that_is_down(rig: Rig) -> None:
    called = await rig.call("errors__answerWith", code=302)
    assert called["isError"]
    assert "not followed" in called["content"][0]["text"]
    down = await rig.call("errors__answerWith", code=503)
    assert down["isError"]
    assert down["_meta"]["dev.armory/error"]["code"] == "upstream_unavailable"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("noids__get_users_by_user-id_posts", {"user-id": ".."}, "another path"),
        ("noids__get_users_by_user-id_posts", {"user-id": ""}, "is empty"),
        ("noids__get_users_by_user-id_posts", {}, "'user-id' is missing"),
        ("petstore__listPets", {"limits": 1}, "it takes limit, tag"),
        ("headers__sendHeaders", {"X-Trace": "a\r\nX-Fixed: b"}, "no header can have"),
        ("form__getToken", {"body": "x"}, "no object"),
        ("binary__putImage", {"body": "%"}, "base64"),
    ],
)
async def test_what_makes_no_request_is_not_sent(
    rig: Rig, name: str, arguments: dict[str, Any], said: str
) -> None:
    before = len(rig.echo.asked)
    called = await rig.call(name, **arguments)
    assert called["isError"]
    assert said in called["content"][0]["text"]
    assert len(rig.echo.asked) == before


async def test_a_query_finds_operations(rig: Rig) -> None:
    query = {"_meta": {"dev.armory/query": "list the pets"}}
    listed = [tool["name"] for tool in (await rig.result("tools/list", query))["tools"]]
    assert "petstore__listPets" in listed
