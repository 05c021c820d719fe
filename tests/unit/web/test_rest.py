"""The REST API from outside: shapes, scopes, limits, errors, and attempts that must fail."""

from __future__ import annotations

import asyncio
import io
import time
from typing import Any

import pytest

pytestmark = pytest.mark.anyio
ADMIN, ANN, BOB = "an-administrators-token", "the-token-of-ann", "the-token-of-bob"
SERVICE, LIMITED = "the-service-token", "the-token-of-lim"


async def test_v1_is_cosine_order_without_packs_and_policy_holds(client: Any) -> None:
    found = await client("GET", "/retrieve_tools", params={"query": "deploy to production"})
    assert found.status == 200
    assert set(found.body) == {"tools", "query_id", "took_ms", "path"}
    assert found.body["path"] == "v1"
    first = found.body["tools"][0]
    assert set(first) == {
        *("name", "server", "description", "inputSchema", "score", "relevance", "reason")
    }
    assert (first["name"], first["server"]) == ("aws__deploy", "aws")
    scores = [entry["score"] for entry in found.body["tools"]]
    assert scores == sorted(scores, reverse=True)
    names = [entry["name"] for entry in found.body["tools"]]
    assert len(names) == 4
    assert "secret__vault" not in names
    everything = await client.names("/retrieve_tools", query="deploy", token=ADMIN)
    assert "secret__vault" in everything


async def test_v2_is_hybrid_within_the_active_packs(client: Any) -> None:
    assert await client.names("/v2/retrieve_tools", query="deploy") == []
    done = await client("POST", "/v2/track_installation", json={"server": "slack"})
    assert done.status == 200
    assert await client.names("/v2/retrieve_tools", query="deploy") != []
    names = await client.names("/v2/retrieve_tools", query="deploy to production")
    assert set(names) == {"slack__notify", "slack__search"}
    await client("POST", "/v2/track_installation", json={"tool_name": "aws__deploy"})
    found = await client("GET", "/v2/retrieve_tools", params={"query": "deploy", "top_k": "1"})
    assert found.body["path"] == "v2"
    assert [entry["name"] for entry in found.body["tools"]] == ["aws__deploy"]
    assert 0 <= found.body["tools"][0]["score"] <= 1
    off = await client("PUT", "/v1/installations/server/slack", json={"is_active": False})
    assert off.status == 200
    assert await client.names("/v2/retrieve_tools", query="notify") == ["aws__deploy"]
    without = await client("GET", "/v2/retrieve_tools", params={"query": "x"}, token=SERVICE)
    assert without.body["path"] == "v1"


async def test_installing_what_policy_denies_gives_nothing(client: Any) -> None:
    pack = {"title": "s", "id": "s", "shared": True, "servers": ["secret"]}
    await client("POST", "/v1/packs", token=ADMIN, json=pack)
    assert (await client("POST", "/v2/track_installation", json={"pack_id": "s"})).status == 200
    assert await client.names("/v2/retrieve_tools", query="secret vault") == []


async def test_multi_factor_filters_reasons_and_debug_numbers(client: Any) -> None:
    usage = client.service.accounts.usage
    for _ in range(5):
        usage.called("service:x", "aws__logs", ok=True, latency_ms=20)
    await usage.flush()
    await usage.refresh()
    body = {"query": "deploy and notify the team", "debug": True, "top_k": 4}
    found = await client("POST", "/v1/retrieve_tools", json=body, token=SERVICE)
    assert found.status == 200
    tools, debug = found.body["tools"], found.body["debug"]
    assert {"aws__deploy", "slack__notify"} <= {entry["name"] for entry in tools}
    assert len(debug["query_embedding"]) == 64
    place = [entry["name"] for entry in tools].index("aws__logs")
    for key in ("embedding_similarity_scores", "popularity_scores", "user_history_scores",
                "performance_scores"):  # fmt: skip
        assert len(debug[key]) == len(tools)
    assert debug["popularity_scores"][place] == 1.0
    expected = (
        0.40 * max(0.0, debug["embedding_similarity_scores"][place])
        + 0.25 * debug["popularity_scores"][place]
        + 0.20 * debug["user_history_scores"][place]
        + 0.15 * debug["performance_scores"][place]
    )
    assert tools[place]["score"] == pytest.approx(expected, abs=1e-5)
    assert "popular" in tools[place]["reason"].lower()
    chat = await client(
        "POST", "/v1/retrieve_tools", token=SERVICE,
        json={"query": "deploy", "filter": {"category": "chat"}},
    )  # fmt: skip
    assert {entry["server"] for entry in chat.body["tools"]} == {"slack"}
    params = {"query": "deploy", "server": "aws", "min_score": "0.2", "top_k": "5"}
    some = await client("GET", "/v1/retrieve_tools", params=params, token=SERVICE)
    assert some.body["tools"]
    assert all(t["server"] == "aws" and t["score"] >= 0.2 for t in some.body["tools"])
    hidden = await client(
        "POST", "/v1/retrieve_tools", token=SERVICE,
        json={"query": "vault", "filter": {"server": "secret"}},
    )  # fmt: skip
    unknown = await client(
        "POST", "/v1/retrieve_tools", token=SERVICE,
        json={"query": "vault", "filter": {"server": "no-such"}},
    )  # fmt: skip
    assert hidden.body["tools"] == unknown.body["tools"] == []


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "   "}, "query"),
        ({"query": "x" * 501}, "query"),
        ({"query": "a\x00b"}, "query"),
        ({"query": "x", "top_k": "0"}, "top_k"),
        ({"query": "x", "top_k": "51"}, "top_k"),
        ({"query": "x", "top_k": "many"}, "top_k"),
        ({"query": "x", "nonsense": "1"}, "nonsense"),
        ([("query", "x"), ("query", "y")], "query"),
    ],
)
async def test_parameters_out_of_their_limits_are_named(
    client: Any, params: Any, parameter: str
) -> None:
    for path in ("/retrieve_tools", "/v2/retrieve_tools"):
        found = await client("GET", path, params=params)
        assert found.status == 422
        assert found.headers["Content-Type"] == "application/problem+json"
        assert found.body["parameter"] == parameter
        assert found.body["code"] == "invalid_request"


async def test_the_longest_query_and_the_most_tools_pass(client: Any) -> None:
    found = await client("GET", "/retrieve_tools", params={"query": "x" * 500, "top_k": "50"})
    assert found.status == 200


async def test_bodies_that_do_not_fit_are_refused(client: Any) -> None:
    post = "/v1/retrieve_tools"
    text = {"Content-Type": "text/plain"}
    json = {"Content-Type": "application/json"}
    assert (await client("POST", post, data="x", headers=text)).status == 415
    assert (await client("POST", post, data="{", headers=json)).status == 400
    assert (await client("POST", post, data="[" * 50_000, headers=json)).status in {400, 422}
    assert (await client("POST", post, json=[1])).status == 422
    found = await client("POST", post, json={"query": "x", "filter": {"sever": "a"}})
    assert found.body["parameter"] == "filter.sever"
    known = "filter.sever: is not known here; known: server, category, min_score"
    assert found.body["detail"] == known
    large = await client("POST", post, data=io.BytesIO(b" " * (5 << 20)), headers=json)
    assert large.status == 413
    agent = await client("POST", post, json={"query": "x", "mode": "agent"})
    assert (agent.status, agent.body["code"]) == (422, "agent_disabled")


async def test_who_is_not_known_gets_nothing(client: Any) -> None:
    for path in ("/retrieve_tools?query=x", "/v1/packs", "/v1/keys", "/v1/users", "/v1/catalog"):
        found = await client("GET", path, token=None)
        assert found.status == 401, path
        assert found.headers["WWW-Authenticate"].startswith("Bearer")
        assert (await client("GET", path, token="acx_" + "x" * 43)).status == 401
    assert (await client("GET", "/openapi.json", token=None)).status == 200
    assert (await client("GET", "/docs", token=None)).status == 200


async def test_a_key_in_the_url_is_no_credential(client: Any) -> None:
    made = await client("POST", "/v1/keys", json={"name": "mine"})
    key = made.body["key"]
    for name in ("api_key", "key", "token", "access_token"):
        found = await client("GET", f"/retrieve_tools?query=x&{name}={key}", token=None)
        assert found.status == 400
        assert found.body["code"] == "credential_in_url"
        assert key not in str(found.body)
    assert (await client("GET", "/retrieve_tools?query=x", token=key)).status == 200


async def test_indexed_tools_are_found_where_policy_and_packs_allow(client: Any) -> None:
    tools = [{"name": "orbit", "description": "Launch a satellite into orbit"}]
    body: dict[str, Any] = {"tools": tools, "server": "space"}
    done = await client("POST", "/v2/index_tools", token=ADMIN, json=body)
    assert done.body == {"indexed": ["space__orbit"], "skipped": []}
    query = "launch a satellite"
    assert (await client.names("/retrieve_tools", query=query))[0] == "space__orbit"
    assert await client.names("/v2/retrieve_tools", query=query) == []
    await client("POST", "/v2/track_installation", json={"server": "space"})
    assert await client.names("/v2/retrieve_tools", query=query) == ["space__orbit"]
    again = await client(
        "POST", "/v2/index_tools", token=ADMIN, json={**body, "skip_existing": True}
    )
    assert again.body == {"indexed": [], "skipped": ["space__orbit"]}
    hidden = {"tools": [{"name": "spy", "description": query}], "server": "secret"}
    await client("POST", "/v2/index_tools", token=ADMIN, json=hidden)
    assert "secret__spy" not in await client.names("/retrieve_tools", query=query)
    for bad in ({}, {"name": ""}, {"name": "x", "inputSchema": []}, {"name": "x\ud800"}):
        found = await client("POST", "/v2/index_tools", token=ADMIN, json={"tools": [bad]})
        assert found.status in {400, 422}


async def test_the_quota_is_told_and_then_refused(client: Any) -> None:
    first = await client("GET", "/retrieve_tools", params={"query": "a"}, token=LIMITED)
    assert first.headers["X-RateLimit-Limit"] == "2"
    assert first.headers["X-RateLimit-Remaining"] == "1"
    await client("GET", "/retrieve_tools", params={"query": "a"}, token=LIMITED)
    third = await client("GET", "/retrieve_tools", params={"query": "a"}, token=LIMITED)
    assert (third.status, third.body["code"]) == (429, "rate_limited")
    resets_at_s = int(third.headers["X-RateLimit-Reset"])
    assert int(third.headers["Retry-After"]) == pytest.approx(resets_at_s - time.time(), abs=60)
    assert third.headers["X-RateLimit-Limit"] == "2"
    assert third.headers["X-RateLimit-Remaining"] == "0"
    assert third.headers["X-RateLimit-Reset"] == first.headers["X-RateLimit-Reset"]
    quota = await client("GET", "/v1/quota", token=LIMITED)
    assert quota.body["remaining"] == 0
    assert quota.body["current_month_usage"] == 2


async def test_kept_answers_are_given_to_nobody_else(client: Any) -> None:
    await client("POST", "/v2/track_installation", json={"server": "aws"})
    await client("POST", "/v2/track_installation", token=BOB, json={"server": "slack"})
    query = {"query": "the same words"}
    for _ in range(2):
        ann = await client.names("/v2/retrieve_tools", **query)
        bob = await client.names("/v2/retrieve_tools", **query, token=BOB)
        assert {name.split("__")[0] for name in ann} == {"aws"}
        assert {name.split("__")[0] for name in bob} == {"slack"}
    one = await client("GET", "/retrieve_tools", params=query)
    two = await client("GET", "/retrieve_tools", params=query)
    assert one.body["tools"] == two.body["tools"]
    assert one.body["query_id"] != two.body["query_id"]


async def test_the_query_log_has_what_was_asked(client: Any) -> None:
    await client("GET", "/retrieve_tools", params={"query": "deploy acx_0123456789"})
    await client.service.accounts.flush()
    found = (await client("GET", "/v1/queries")).body["queries"]
    assert found[0]["query"] == "deploy [redacted]"
    assert found[0]["surface"] == "rest:v1"
    assert (await client("GET", "/v1/queries", token=BOB)).body["queries"] == []


async def test_status_shows_what_the_caller_may_see(client: Any) -> None:
    await client("POST", "/v2/track_installation", json={"server": "aws"})
    shown = (await client("GET", "/v1/upstreams")).body["upstreams"]
    assert [entry["server"] for entry in shown] == ["aws"]
    assert "error" not in shown[0]
    assert (await client("GET", "/v1/catalog")).body["servers"] == {"aws": 2}
    whole = (await client("GET", "/v1/upstreams", token=ADMIN)).body
    assert len(whole["upstreams"]) == 3
    assert (await client("GET", "/v1/upstreams/aws/logs")).status == 403
    kept = await client("GET", "/v1/upstreams/aws/logs", token=ADMIN)
    expected = {"server": "aws", "process": whole["process"], "lines": ["a line"]}
    assert kept.body == expected
    assert (await client("GET", "/v1/upstreams/nobody/logs", token=ADMIN)).status == 404
    client.service.accounts.usage.called("ann", "secret__vault", ok=True, latency_ms=1)
    await client.service.accounts.usage.flush()
    await client.service.accounts.usage.refresh()
    assert (await client("GET", "/v1/usage/tools")).body["tools"] == []
    assert len((await client("GET", "/v1/usage/tools", token=ADMIN)).body["tools"]) == 1


async def test_request_ids_are_echoed_only_where_harmless(client: Any) -> None:
    good = await client("GET", "/v1/catalog", headers={"X-Request-ID": "abc-1"})
    assert good.headers["X-Request-ID"] == "abc-1"
    bad = await client("GET", "/v1/catalog", headers={"X-Request-ID": "a b<script>"})
    assert len(bad.headers["X-Request-ID"]) == 32
    wrong = await client("DELETE", "/v1/catalog")
    assert (wrong.status, wrong.headers["Allow"]) == (405, "GET, HEAD")


async def test_a_thousand_requests_at_once_keep_their_scopes(client: Any) -> None:
    await client("POST", "/v2/track_installation", json={"server": "aws"})
    await client("POST", "/v2/track_installation", token=BOB, json={"server": "slack"})

    async def one(number: int) -> None:
        token, server = (ANN, "aws") if number % 2 else (BOB, "slack")
        names = await client.names("/v2/retrieve_tools", query=f"q{number % 7}", token=token)
        assert {name.split("__")[0] for name in names} == {server}

    for start in range(0, 200, 50):
        await asyncio.gather(*(one(number) for number in range(start, start + 50)))


async def test_the_description_covers_every_route_and_answers_fit_it(client: Any) -> None:
    import jsonschema

    document = (await client("GET", "/openapi.json", token=None)).body
    assert document["openapi"].startswith("3.1")
    components = document["components"]
    samples = [
        ("/retrieve_tools?query=x", "Tools"),
        ("/v2/retrieve_tools?query=x", "Tools"),
        ("/v1/retrieve_tools?query=x&debug=true", "RankedTools"),
        ("/v1/packs", "PackList"),
        ("/v1/keys", "KeyList"),
        ("/v1/usage", "UserUsage"),
        ("/v1/quota", "QuotaAnswer"),
        ("/v1/queries", "QueryList"),
        ("/v1/upstreams", "UpstreamList"),
        ("/v1/catalog", "CatalogAnswer"),
        ("/v1/installations", "Installations"),
    ]
    for path, name in samples:
        found = await client("GET", path)
        assert found.status == 200, found.body
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        jsonschema.Draft202012Validator(schema).validate(found.body)


async def test_the_description_is_one_of_which_generators_make_clients_that_compile(
    client: Any,
) -> None:
    document = (await client("GET", "/openapi.json", token=None)).body
    schemas: dict[str, Any] = document["components"]["schemas"]
    members = [one for schema in schemas.values() for one in schema.get("properties", {}).values()]
    assert not [one for one in members if isinstance(one.get("default"), dict)]
    # in Go, NewX makes an X
    assert not [name for name in schemas if name.startswith("New") and name[3:] in schemas]


async def test_answers_of_an_index_that_lags_behind_are_not_kept(client: Any) -> None:
    service = client.service
    service.follows_registry = False  # the index hears of it later, as with a slow model
    tools = [{"name": "orbit", "description": "Launch a satellite into orbit"}]
    body = {"tools": tools, "server": "space"}
    await client("POST", "/v2/index_tools", token=ADMIN, json=body)
    query = "launch a satellite"
    assert "space__orbit" not in await client.names("/retrieve_tools", query=query)
    await service.publish(service.catalog)
    assert (await client.names("/retrieve_tools", query=query))[0] == "space__orbit"


async def test_a_refused_parameter_shows_what_came_and_what_is_known(client: Any) -> None:
    async def detail(**params: str) -> str:
        found = await client("GET", "/retrieve_tools", params=params)
        assert found.status == 422
        return str(found.body["detail"])

    assert await detail() == "query: is needed and missing"
    assert await detail(query="x", foo="1") == "foo: is not known here; known: query, top_k"
    assert '50; it is "51"' in await detail(query="x", top_k="51")
    long = await detail(query="y" * 501)
    assert "at most 500 characters" in long
    assert len(long) < 150
    found = await client(
        "POST",
        "/v1/retrieve_tools",
        data=b'{"query":"x","top_k":[1]}',
        headers={"Content-Type": "application/json"},
    )
    assert (found.status, found.body["parameter"]) == (422, "top_k")
    assert found.body["detail"].endswith("it is [1]")
