"""What a REST request may ask for, and what is told where it is too much."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import BaseModel

from armory.accounts.settings import AccountSettings
from armory.domain.principal import ANONYMOUS
from armory.errors import ArmoryError, BackendError, LoginNeeded, RateLimited
from armory.llm.errors import ChatRejected, ChatUnavailable
from armory.security.limits.ratelimit import RateLimiter
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service
from armory.web import rest
from armory.web.connections.connection import Connection
from armory.web.rest.problems import problem_of
from armory.web.rest.routes import Answer, Shape
from armory.web.rest.searching import Searching
from armory.web.rest.services import RestLimits
from tests.garbage import none_collected
from tests.unit.web.conftest import Client, tool

pytestmark = pytest.mark.anyio
APP = {"_meta": {"ui": {"resourceUri": "ui://panel", "visibility": ["app"]}}}


async def test_tools_for_apps_alone_are_not_found(tmp_path: Path) -> None:
    servers = {"maps": [tool("draw_map", "Draw a map") | APP, tool("find_place", "Find a place")]}
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of(servers),
            embedder=HashingEmbedder(),
            allow_anonymous=True,
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, service)
        body = {"tools": [tool("show_panel", "Draw a map") | APP]}
        await client("POST", "/v2/index_tools", token=ADMIN_TOKEN, json=body)
        for path in ("/retrieve_tools", "/v2/retrieve_tools", "/v1/retrieve_tools"):
            found = await client.names(path, query="draw a map", token=ADMIN_TOKEN)
            assert found == ["maps__find_place"]
        assert service.rest is not None
        searching = Searching(service.rest)
        first = searching.visible(ANONYMOUS, packs=True)
        assert first.names == {"maps__find_place"}
        assert searching.visible(ANONYMOUS, packs=True) is first  # retrieval keeps its mask by it


async def test_a_request_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    async with running_service(
        f"sqlite:///{tmp_path / 'armory.db'}", catalog_of({}), allow_anonymous=True
    ) as service:
        with none_collected() as gone:
            async with aiohttp.ClientSession() as session:
                url = f"{service.url}/v1/retrieve_tools"
                async with session.post(url, data=b"{}", headers={"Content-Type": "x/y"}) as answer:
                    assert answer.status == 415
            await gone(Connection)


async def test_a_found_tool_tells_of_its_user_interface(tmp_path: Path) -> None:
    ui = {"_meta": {"ui": {"resourceUri": "ui://chart", "visibility": ["model"]}, "other": 1}}
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of({"maps": [tool("draw_map", "Draw a map") | ui, tool("find", "A map")]}),
            embedder=HashingEmbedder(),
            allow_anonymous=True,
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, service)
        found = await client("GET", "/retrieve_tools", token=ADMIN_TOKEN, params={"query": "a map"})
        shown = {entry["name"]: entry.get("_meta") for entry in found.body["tools"]}
        linked = {"resourceUri": "ui://maps/chart", "visibility": ["model"]}
        assert shown == {"maps__draw_map": {"ui": linked}, "maps__find": None}


async def test_the_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of({"maps": [tool(f"map_{n}", "Draw a map") for n in range(9)]}),
            embedder=HashingEmbedder(),
            limits=RestLimits(query_chars=10, top_k=7),
            allow_anonymous=True,
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, service)

        async def asked(**params: str) -> Any:
            return await client("GET", "/retrieve_tools", token=ADMIN_TOKEN, params=params)

        long, many = await asked(query="x" * 11), await asked(query="x", top_k="8")
        assert (long.status, many.status) == (422, 422)
        assert "at most 10 characters" in long.body["detail"]
        assert len((await asked(query="draw a map", top_k="7")).body["tools"]) == 7


def test_a_spent_rate_says_when_to_come_back() -> None:
    limiter = RateLimiter(0.5, 3, clock=lambda: 100.0)
    assert [limiter.tried("ann") for _ in range(3)] == [0.0, 0.0, 0.0]
    refused = RateLimited("too many", retry_after_s=limiter.tried("ann"), limit=3)
    headers = problem_of(refused).headers
    assert headers["Retry-After"] == "2"
    assert headers["X-RateLimit-Limit"] == "3"
    assert headers["X-RateLimit-Remaining"] == "0"
    assert int(headers["X-RateLimit-Reset"]) > 1_700_000_000


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (BackendError("the database is away"), True),
        (ChatUnavailable("the model is away"), True),
        (ChatRejected("the model's key is wrong"), False),
        (LoginNeeded("up wants you to log in", upstream="up"), False),
    ],
)
def test_only_who_may_try_again_is_told_when(error: ArmoryError, *, again: bool) -> None:
    problem = problem_of(error)
    assert problem.status == 503
    assert ("Retry-After" in problem.headers) is again


async def test_indexed_tools_name_their_server_and_go_again(client: Any) -> None:
    async def found(query: str) -> list[str]:
        return await client.names("/retrieve_tools", query=query, token=ADMIN_TOKEN, top_k="20")

    async def delete(**params: str) -> Any:
        return await client("DELETE", "/v2/index_tools", token=ADMIN_TOKEN, params=params)

    tools = [
        {"name": "orbit", "description": "Launch a satellite", "server": "space"},
        {"name": "dive", "description": "Launch a submarine"},
        {"name": "land", "description": "Land a satellite", "server": "space"},
    ]
    body = {"tools": tools, "server": "sea"}
    done = await client("POST", "/v2/index_tools", token=ADMIN_TOKEN, json=body)
    assert done.body["indexed"] == ["space__orbit", "space__land", "sea__dive"]
    listed = await client("GET", "/retrieve_tools", params={"query": "Launch"}, token=ADMIN_TOKEN)
    servers = {entry["name"]: entry["server"] for entry in listed.body["tools"]}
    assert (servers["space__orbit"], servers["sea__dive"]) == ("space", "sea")
    assert (await delete(name="space__orbit")).body == {"removed": ["space__orbit"]}
    assert "space__orbit" not in await found("Launch a satellite")
    assert (await delete(server="space")).body == {"removed": ["space__land"]}
    assert (await delete(server="space")).status == 404
    assert (await delete(name="aws__deploy")).status == 404, "an upstream's tool is not indexed"
    assert "aws__deploy" in await found("deploy")
    assert (await delete()).status == (await delete(name="a", server="b")).status == 422
    refused = await client("DELETE", "/v2/index_tools", params={"server": "sea"})
    assert refused.status == 403
    bad = {"tools": [{"name": "x", "server": "No Server"}]}
    answer = await client("POST", "/v2/index_tools", token=ADMIN_TOKEN, json=bad)
    assert (answer.status, answer.body["parameter"]) == (422, "tools.0.server")


async def test_tools_are_indexed_all_or_none_whatever_their_text_looks_like(client: Any) -> None:
    async def index(*tools: dict[str, Any]) -> Any:
        body = {"tools": list(tools)}
        return await client("POST", "/v2/index_tools", token=ADMIN_TOKEN, json=body)

    refused = await index({"name": "one", "server": "sky"}, {"name": "two ", "server": "sea"})
    assert refused.status == 422
    assert client.service.accounts.registry.records == {}
    plain = {"type": "string", "pattern": r"^[^\u0000-\u001f]*$"}
    schema = {"type": "object", "properties": {"a": plain}}
    fine = {"name": "read", "description": r"Reads C:\udata", "inputSchema": schema}
    assert (await index(fine)).body == {"indexed": ["indexed__read"], "skipped": []}
    for text in ("\x00", "\\\x00"):
        assert (await index({"name": "x", "description": text})).status == 422


async def test_a_path_that_is_not_there_is_a_problem_and_head_is_answered(client: Any) -> None:
    for method in ("GET", "POST", "DELETE"):
        found = await client(method, "/v1/no_such_thing")
        assert (found.status, found.body["code"]) == (404, "unknown")
        assert found.headers["Content-Type"] == "application/problem+json"
        assert found.body["request_id"] == found.headers["X-Request-ID"]
    head = await client("HEAD", "/v1/packs")
    whole = await client("GET", "/v1/packs")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"] == whole.headers["Content-Type"]
    assert (await client("PATCH", "/v1/packs")).status == 405


def test_a_login_that_is_missing_is_no_defect() -> None:
    problem = problem_of(LoginNeeded("up wants you to log in", upstream="up"))
    assert (problem.status, problem.code) == (503, "login_required")
    assert problem.detail == "up wants you to log in"


@pytest.mark.parametrize(
    ("written", "named", "said"),
    [
        ("query=gr%f6sse", "query", "expected percent-encoded UTF-8"),
        ("query=%ff&top_k=3", "query", "expected percent-encoded UTF-8"),
        ("query=a&query=b", "query", "more than once"),
    ],
)
async def test_a_parameter_of_a_url_that_is_no_text_is_named(
    client: Client, written: str, named: str, said: str
) -> None:
    found = await client("GET", f"/retrieve_tools?{written}")
    assert (found.status, found.body["parameter"]) == (422, named)
    assert said in found.body["detail"]
    assert (await client("GET", "/retrieve_tools?query=gr%C3%B6sse+%2B")).status == 200


async def test_indexed_tools_whose_names_look_alike_stay_apart_whenever_they_come(
    client: Any,
) -> None:
    async def index(name: str, **more: Any) -> Any:
        body = {"tools": [{"name": name, "description": name}], "server": "space", **more}
        return (await client("POST", "/v2/index_tools", token=ADMIN_TOKEN, json=body)).body

    def known() -> dict[str, str]:
        records = client.service.accounts.registry.records
        return {record.original_name: name for name, record in records.items()}

    assert (await index("a.b"))["indexed"] == ["space__a_b"]
    (apart,) = (await index("a/b"))["indexed"]
    assert known().keys() == {"a.b", "a/b"}
    assert known()["a/b"] == apart
    assert (await index("a_b"))["indexed"] == ["space__a_b"]
    assert known().keys() == {"a.b", "a/b", "a_b"}
    again = await index("a.b", skip_existing=True)
    assert again == {"indexed": [], "skipped": [known()["a.b"]]}


async def test_who_asks_for_packs_where_accounts_are_off_is_told_so(tmp_path: Path) -> None:
    async with (
        running_service(
            f"sqlite:///{tmp_path / 'armory.db'}",
            catalog_of({"maps": [tool("draw_map", "Draw a map")]}),
            settings=AccountSettings(enabled=False),
            embedder=HashingEmbedder(),
            allow_anonymous=True,
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, service)
        for token in (None, ADMIN_TOKEN):
            for path in ("/v1/packs", "/v1/installations", "/v1/quota"):
                found = await client("GET", path, token=token)
                assert (found.status, found.body["code"]) == (404, "accounts_disabled")
                assert "accounts.enabled" in found.body["detail"]


async def test_truth_is_no_number(client: Any) -> None:
    for body, parameter in (
        ({"query": "x", "top_k": True}, "top_k"),
        ({"query": "x", "context": {"hour": True}}, "context.hour"),
        ({"query": "x", "filter": {"min_score": False}}, "filter.min_score"),
    ):
        found = await client("POST", "/v1/retrieve_tools", json=body)
        assert (found.status, found.body["parameter"]) == (422, parameter)
        assert "number; it is " in found.body["detail"]
    truth = {"query": "x", "debug": True}
    assert (await client("POST", "/v1/retrieve_tools", json=truth)).status == 200


async def test_a_text_is_no_number_and_a_word_no_truth(client: Any) -> None:
    admin: dict[str, Any] = {"token": ADMIN_TOKEN}
    await client("POST", "/v1/users", json={"id": "carl"}, **admin)
    for path, wrong in (
        ("/v1/users/carl", {"is_active": "no"}),
        ("/v1/users/carl", {"is_active": 0}),
        ("/v1/keys", {"name": "x", "expires_at_ms": "99999999999999"}),
        ("/v1/packs", {"title": "x", "shared": "true"}),
        ("/v1/packs", {"title": "x", "shared": 1}),
        ("/v1/retrieve_tools", {"query": "x", "top_k": "3"}),
        ("/v1/retrieve_tools", {"query": "x", "context": {"hour": "3"}}),
    ):
        found = await client("PATCH" if "users" in path else "POST", path, json=wrong, **admin)
        assert found.status == 422, (path, wrong)
        assert "expected" in found.body["detail"]
    assert (await client("GET", "/v1/users/carl", **admin)).body["is_active"]
    whole = {"query": "x", "top_k": 3.0, "filter": {"min_score": 0}}
    assert (await client("POST", "/v1/retrieve_tools", json=whole)).status == 200
    assert (await client("GET", "/v1/retrieve_tools?query=x&top_k=3&debug=true")).status == 200


async def test_what_a_pattern_wants_is_said_in_words(client: Any) -> None:
    admin: dict[str, Any] = {"token": ADMIN_TOKEN}
    tools = [{"name": "a"}]
    for path, body, words in (
        ("/v2/index_tools", {"tools": tools, "server": "Bad"}, "words joined by hyphens"),
        ("/v1/keys", {"name": "x", "scopes": ["a b"]}, "letters, digits"),
        ("/v1/packs", {"title": "x", "id": "A b"}, "small letters"),
    ):
        found = await client("POST", path, json=body, **admin)
        assert found.status == 422
        assert words in found.body["detail"]


async def test_nobody_is_called_nothing(client: Any) -> None:
    for path in ("/v1/usage", "/v1/logins"):
        found = await client("GET", f"{path}?user=", token=ADMIN_TOKEN)
        assert (found.status, found.body["parameter"]) == (422, "user")


def test_the_description_has_one_schema_of_each_name() -> None:
    """A schema is called as its model, in whatever file that is: of two alike only one is there."""
    for module in pkgutil.walk_packages(rest.__path__, f"{rest.__name__}."):
        importlib.import_module(module.name)
    models = (model for base in (Shape, Answer) for model in below(base))
    # those that are made for each service have its limits
    names = Counter(m.__name__ for m in models if hasattr(sys.modules[m.__module__], m.__name__))
    assert len(names) > 50
    assert [name for name, times in names.items() if times > 1] == []


def below(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from below(model)


async def test_bodies_are_nested_no_deeper_than_messages_may_be(client: Client) -> None:
    """Those that are validated, and those that go on to an upstream as they came."""
    headers = {"Content-Type": "application/json"}
    for path, member in (("/v1/tools/aws__deploy/call", "arguments"), ("/v1/packs", "servers")):
        for levels in (63, 64):
            body = f'{{"{member}": ' + '{"a":' * levels + "1" + "}" * (levels + 1)
            done = await client("POST", path, token=ADMIN_TOKEN, data=body, headers=headers)
            refused = "server.limits.json_depth" in str(done.body)
            assert (done.status == 400, refused) == (levels == 64, levels == 64), (path, done.body)
