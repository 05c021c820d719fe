"""The running gateway over REST: what each caller sees, and what only administrators may do."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import BackendError
from armory.evaluation.dataset import load_dataset
from armory.evaluation.marks import MarkedQueries
from armory.gateway.settings import SetSpec
from armory.retrieval.indexing.document import document_of
from armory.testing.service import catalog_of
from armory.web.rest.live import tools as live_tools

pytestmark = pytest.mark.anyio
ADMIN, ANN, SERVICE = "an-administrators-token", "the-token-of-ann", "the-service-token"


async def test_me_says_who_asks_and_what_may_be_used(client: Any) -> None:
    sets = {"ops": SetSpec(("away",), ("aws__*",)), "vaults": SetSpec(("secret",))}
    gateway = client.service.gateway
    gateway.reconfigure(settings=replace(gateway.view.settings, sets=sets))
    ann = (await client("GET", "/v1/me")).body
    assert (ann["subject"], ann["user"], ann["admin"]) == ("ann", "ann", False)
    assert ann["features"]["labels"] is ann["features"]["restart"] is False
    assert ann["endpoints"] == [""]  # ann has no pack
    service = (await client("GET", "/v1/me", token=SERVICE)).body
    assert service["endpoints"] == ["", "set/ops", "aws", "slack"]
    root = (await client("GET", "/v1/me", token=ADMIN)).body
    assert root["admin"] is True
    assert root["endpoints"] == ["", "set/ops", "set/vaults", "aws", "slack", "secret"]
    assert root["features"]["labels"] is True
    assert (await client("GET", "/v1/me", token=None)).status == 401


async def test_rows_of_many_tools_are_put_together_beside_the_event_loop(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints, seen = live_tools._hints, set[threading.Thread]()  # pyright: ignore[reportPrivateUsage]

    def noted(annotations: Mapping[str, Any]) -> list[str]:
        seen.add(threading.current_thread())
        return hints(annotations)

    monkeypatch.setattr(live_tools, "_hints", noted)
    many = catalog_of({"many": [{"name": f"t{number}"} for number in range(600)]})
    version = client.service.gateway.view.catalog.version + 1
    client.service.gateway.publish(replace(many, version=version))
    rows = (await client("GET", "/v1/tools", token=SERVICE, params={"limit": "5000"})).body
    assert [row["name"] for row in rows["tools"]] == list(many.tools)
    assert rows["total"] == 600
    assert seen
    assert threading.main_thread() not in seen


async def test_tools_are_those_that_policy_and_packs_show(client: Any) -> None:
    rows = (await client("GET", "/v1/tools", token=SERVICE)).body
    assert [row["name"] for row in rows["tools"]] == [
        *("aws__deploy", "aws__logs", "slack__notify", "slack__search")
    ]
    assert rows["total"] == 4
    assert all(row["tokens"] > 10 for row in rows["tools"])
    part = await client("GET", "/v1/tools", token=SERVICE, params={"after": "1", "limit": "2"})
    assert [row["name"] for row in part.body["tools"]] == ["aws__logs", "slack__notify"]
    assert part.body["total"] == 4
    assert (await client("GET", "/v1/tools")).body["total"] == 0  # ann has no pack
    one = (await client("GET", "/v1/tools/aws__deploy", token=SERVICE)).body
    assert one["definition"]["name"] == "aws__deploy"
    assert one["definition"]["inputSchema"]["properties"] == {"target": {"type": "string"}}
    for name in ("secret__vault", "aws__nothing"):
        found = await client("GET", f"/v1/tools/{name}", token=SERVICE)
        assert (found.status, found.body["code"]) == (404, "unknown_tool")


async def test_calling_goes_the_way_of_every_call(client: Any) -> None:
    """There are no upstreams here: what comes back is the gateway's own answer to that."""
    done = await client("POST", "/v1/tools/aws__deploy/call", token=SERVICE, json={"arguments": {}})
    assert (done.status, done.body["code"]) == (503, "upstream_unavailable"), done.body
    assert "aws" in done.body["detail"]
    assert int(done.headers["Retry-After"]) >= 1
    hidden = {"token": SERVICE, "json": {"arguments": {}}}
    assert (await client("POST", "/v1/tools/secret__vault/call", **hidden)).status == 404
    entries = (await client("GET", "/v1/activity", token=SERVICE)).body["entries"]
    assert [(e["kind"], e["what"], e["server"], e["ok"]) for e in entries] == [
        ("call", "aws__deploy", "aws", False)
    ]
    assert (await client("GET", "/v1/activity")).body["entries"] == []  # ann's own: none
    assert len((await client("GET", "/v1/activity", token=ADMIN)).body["entries"]) == 1
    last = (await client("GET", "/v1/activity", token=ADMIN)).body["last"]
    newer = await client("GET", "/v1/activity", token=ADMIN, params={"after": str(last)})
    assert (newer.body["last"], newer.body["entries"]) == (last, [])


async def test_a_page_before_several_replicas_tells_whose_entries_it_has(client: Any) -> None:
    """Numbers are each process's own, and a balancer sends each request elsewhere."""
    await client("POST", "/v1/tools/aws__deploy/call", token=SERVICE, json={"arguments": {}})
    shown = (await client("GET", "/v1/activity", token=ADMIN)).body
    process, last, (entry,) = shown["process"], shown["last"], shown["entries"]

    async def listed(seen: str) -> list[Any]:
        params = {"seen": seen, "after": str(last)}
        return (await client("GET", "/v1/activity", token=ADMIN, params=params)).body["entries"]

    assert await listed(f"another:1,{process}:{last}") == []
    for strange in (f"another:{last}", "", "x", f"{process}:x", f"{process}:"):
        assert await listed(strange) == [entry], strange
    path = f"/v1/activity/{entry['seq']}"
    own = await client("GET", path, token=ADMIN, params={"process": process})
    assert own.status == 200
    other = await client("GET", path, token=ADMIN, params={"process": "another"})
    assert (other.status, other.body["code"]) == (404, "other_process")
    assert other.headers["Connection"] == "close"  # the next one may reach another replica
    minutes = (await client("GET", "/v1/activity/minutes", token=ADMIN)).body
    assert minutes["process"] == process


async def test_search_explains_what_a_listing_would_show(client: Any) -> None:
    body = {"queries": ["deploy to production"], "ranker": "semantic", "threshold": 0.0}
    found = (await client("POST", "/v1/search", token=SERVICE, json=body)).body
    assert set(found["listed"]) <= {"aws__deploy", "aws__logs", "slack__notify", "slack__search"}
    assert found["candidates"][0]["name"] == "aws__deploy"
    assert found["candidates"][0]["withheld"] is None
    assert found["candidates"][0]["signals"]
    assert (found["visible"], found["hidden"]) == (4, None)
    assert min(found["tokens"].values()) > 0
    assert found["ms"]["total"] > 0
    strict = {**body, "threshold": 1.0}
    none = (await client("POST", "/v1/search", token=SERVICE, json=strict)).body
    assert [one for one in none["candidates"] if one["withheld"] is None] == []
    capped = {**body, "top_k": 1}
    one = (await client("POST", "/v1/search", token=SERVICE, json=capped)).body
    assert len(one["listed"]) == 1
    assert "cap" in {row["withheld"] for row in one["candidates"]}
    entries = (await client("GET", "/v1/activity", token=SERVICE)).body["entries"]
    assert [(e["kind"], e["what"]) for e in entries] == [("search", "deploy to production")] * 3


async def test_only_administrators_look_through_other_eyes(client: Any) -> None:
    body = {"queries": ["deploy"], "threshold": 0.0, "principal": {"user": "lim"}}
    refused = await client("POST", "/v1/search", json=body, token=SERVICE)
    assert refused.status == 403
    as_lim = (await client("POST", "/v1/search", json=body, token=ADMIN)).body
    assert as_lim["visible"] == 0
    assert as_lim["hidden"] == {"endpoint": 0, "policy": 1, "packs": 4, "apps": 0}
    own = (await client("POST", "/v1/search", json={"queries": ["deploy"]}, token=ADMIN)).body
    assert own["visible"] == 5
    at = {"queries": ["deploy"], "endpoint": "slack"}
    assert (await client("POST", "/v1/search", json=at, token=SERVICE)).body["visible"] == 2
    for bad in ("nowhere", "set/none"):
        refused = await client("POST", "/v1/search", json={**at, "endpoint": bad}, token=SERVICE)
        assert (refused.status, refused.body["parameter"]) == (422, "endpoint")


async def test_labels_make_a_set_that_eval_reads(client: Any) -> None:
    def mark(tool: str | None, right: bool | None, query: str = "ship it") -> Any:
        body = {"query": query, "tool": tool, "right": right}
        return client("POST", "/v1/labels", token=ADMIN, json=body)

    assert (await client("POST", "/v1/labels", json={"query": "x", "right": True})).status == 403
    assert (await mark("aws__nothing", True)).status == 404
    assert (await mark("slack__notify", False)).body["wrong"] == ["slack__notify"]
    assert (await mark("aws__deploy", True)).body["right"] == ["aws__deploy"]
    assert (await mark(None, False, "tell me a joke")).body["none"] is True
    assert (await mark("aws__logs", False, "only wrong")).status == 200
    found = (await client("GET", "/v1/labels", token=ADMIN)).body
    dataset = load_dataset(Path(found["folder"]))
    assert {q.text: set(q.relevant) for q in dataset.queries} == {
        "ship it": {"aws__deploy"},
        "tell me a joke": set(),
    }
    assert len(dataset.tools) == 5
    assert (await mark("aws__deploy", None)).body["right"] == []
    left = (await client("GET", "/v1/labels", token=ADMIN)).body["labels"]
    assert {row["query"]: row["wrong"] for row in left} == {
        "tell me a joke": [],
        "ship it": ["slack__notify"],
        "only wrong": ["aws__logs"],
    }


def record(name: str) -> ToolRecord:
    definition = {"name": name}
    return ToolRecord(f"s__{name}", "s", name, definition, fingerprint(definition))


def test_a_labelled_tool_that_vanished_stays_in_the_set(tmp_path: Path) -> None:
    marks = MarkedQueries(tmp_path / "labels")
    marks.mark("q", "s__old", True, [record("old")])
    marks.mark("r", "s__new", True, [record("new")])
    dataset = load_dataset(tmp_path / "labels")
    assert {tool.name for tool in dataset.tools} == {"s__old", "s__new"}
    (tmp_path / "labels" / "queries.jsonl").write_text("no json", encoding="utf-8")
    with pytest.raises(BackendError, match="cannot be read"):
        marks.all()


def test_a_set_has_what_tools_are_found_by_whatever_their_servers_call_it(tmp_path: Path) -> None:
    definition: dict[str, Any] = {"name": "old", "id": 7, "tags": "x", "category": ["y"]}
    definition |= {"server_about": 1, "_meta": {"anthropic/searchHint": "post"}}
    tool = ToolRecord("s__old", "s", "old", definition, fingerprint(definition))
    said = {"server_title": "Office", "server_about": "Reads and sends letters."}
    tool = replace(tool, tags=("mail",), category="office", **said)
    MarkedQueries(tmp_path / "labels").mark("q", "s__old", True, [tool])
    (found,) = load_dataset(tmp_path / "labels").tools
    assert (found.name, found.tags, found.category) == ("s__old", ("mail",), "office")
    assert document_of(found) == document_of(tool)


async def test_what_a_call_said_is_for_its_caller_and_for_administrators(client: Any) -> None:
    given = {"arguments": {"target": "here", "api_key": "0123456789"}}
    await client("POST", "/v1/tools/aws__deploy/call", token=SERVICE, json=given)
    (entry,) = (await client("GET", "/v1/activity", token=SERVICE)).body["entries"]
    assert entry["contents"] is True
    assert "target" not in str(entry)
    path = f"/v1/activity/{entry['seq']}"
    said = {"arguments": '{"target":"here","api_key":"***"}', "result": None}
    assert (await client("GET", path, token=SERVICE)).body == said
    assert (await client("GET", path, token=ADMIN)).body == said
    for other, token in ((path, ANN), ("/v1/activity/2", ADMIN), ("/v1/activity/x", ADMIN)):
        found = await client("GET", other, token=token)
        assert (found.status, found.body["code"]) == (404, "unknown")


async def test_states_of_upstreams_say_which_replica_has_them(client: Any) -> None:
    for token in (SERVICE, ADMIN):
        shown = (await client("GET", "/v1/upstreams", token=token)).body
        process = (await client("GET", "/v1/activity", token=token)).body["process"]
        assert shown["process"] == process
        assert shown["upstreams"]


async def test_restarting_is_for_administrators(client: Any) -> None:
    assert (await client("POST", "/v1/upstreams/aws/restart")).status == 403
    gone = await client("POST", "/v1/upstreams/nothing/restart", token=ADMIN)
    assert (gone.status, gone.body["detail"]) == (404, "there is no upstream 'nothing'")


async def test_minutes_of_others_are_for_administrators(client: Any) -> None:
    body = {"queries": ["deploy"], "threshold": 1.0}
    await client("POST", "/v1/search", token=ADMIN, json=body)
    for tool in ("aws__deploy", "aws__logs", "slack__notify"):
        await client("POST", f"/v1/tools/{tool}/call", token=SERVICE, json={"arguments": {}})

    async def counted(token: str, **params: str) -> tuple[int, int]:
        answer = await client("GET", "/v1/activity/minutes", token=token, params=params)
        minutes = answer.body["minutes"]
        return sum(one["calls"] for one in minutes), sum(one["queries"] for one in minutes)

    assert await counted(ADMIN) == (3, 1)
    assert await counted(ADMIN, server="aws") == (2, 0)
    assert await counted(ADMIN, tool="aws__logs") == (1, 0)
    assert await counted(ADMIN, who="token:root") == (0, 1)
    assert await counted(SERVICE) == (3, 0)
    assert await counted(SERVICE, who="token:root") == (3, 0)  # its own, whatever is asked
    assert await counted(ANN) == (0, 0)
    for token, callers in ((ADMIN, ["token:root", "token:service"]), (SERVICE, [])):
        found = (await client("GET", "/v1/activity/minutes", token=token)).body
        assert (found["callers"], found["since_ms"] > 0) == (callers, True)
        assert found["stretch_ms"] == (60_000 if token == ADMIN else 300_000)


async def test_tools_of_a_set_that_is_not_there(client: Any) -> None:
    answer = await client("GET", "/v1/tools", params={"set": "nothing"})
    assert (answer.status, answer.body["code"]) == (422, "invalid_request")
    assert answer.body["parameter"] == "set"


async def test_where_retrieval_is_off_a_search_costs_no_query(client: Any) -> None:
    gateway = client.service.gateway
    gateway.reconfigure(settings=replace(gateway.view.settings, tool_rag=False))
    before = (await client("GET", "/v1/quota")).body
    refused = await client("POST", "/v1/search", json={"queries": ["deploy"]})
    assert (refused.status, refused.body["code"]) == (503, "backend")
    assert "tool_rag.enabled" in refused.body["detail"]
    assert (await client("GET", "/v1/quota")).body == before


async def test_a_search_is_as_long_as_a_query_of_a_listing_may_be(client: Any) -> None:
    gateway = client.service.gateway
    limits = replace(gateway.view.settings, query_chars=12, query_top_k=3)
    gateway.reconfigure(settings=limits)
    for body, parameter in (
        ({"queries": ["deploy it", "now!"]}, "queries"),
        ({"queries": ["deploy"], "top_k": 4}, "top_k"),
    ):
        refused = await client("POST", "/v1/search", token=SERVICE, json=body)
        assert (refused.status, refused.body["parameter"]) == (422, parameter)
        assert "server.limits.query_" in refused.body["detail"]
    fits = {"queries": ["deploy it", "now"], "top_k": 3}
    assert (await client("POST", "/v1/search", token=SERVICE, json=fits)).status == 200
