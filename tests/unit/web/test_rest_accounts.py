"""Users, keys, packs and installations over REST: each caller its own, administrators the rest."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from sqlalchemy import insert

from armory.storage.tables import packs

pytestmark = pytest.mark.anyio
ADMIN, ANN, BOB = "an-administrators-token", "the-token-of-ann", "the-token-of-bob"
SERVICE = "the-service-token"


async def test_users_make_keys_of_their_own_alone(client: Any) -> None:
    made = await client("POST", "/v1/keys", json={"name": "mine"})
    assert made.status == 201
    key, key_id = made.body["key"], made.body["id"]
    assert made.body["user"] == "ann"
    listed = (await client("GET", "/v1/keys", token=key)).body["keys"]
    assert [entry["id"] for entry in listed] == [key_id]
    assert "key" not in listed[0]
    assert (await client("POST", "/v1/keys", json={"name": "x", "user": "bob"})).status == 403
    assert (await client("POST", "/v1/keys", json={"name": "x", "scopes": ["admin"]})).status == 403
    assert (await client("DELETE", f"/v1/keys/{key_id}", token=BOB)).status == 404
    assert (await client("DELETE", f"/v1/keys/{key_id}")).status == 204
    assert (await client("GET", "/v1/keys", token=key)).status == 401
    admin = await client("POST", "/v1/keys", token=ADMIN, json={"name": "x", "user": "nobody"})
    assert (admin.status, admin.body["parameter"]) == (422, "user")
    past = await client("POST", "/v1/keys", json={"name": "x", "expires_at_ms": 1})
    assert (past.status, past.body["parameter"]) == (422, "expires_at_ms")


async def test_a_key_makes_none_that_outlasts_it(client: Any) -> None:
    ends = int(time.time() * 1_000) + 600_000
    first = {"name": "short", "expires_at_ms": ends}
    key = (await client("POST", "/v1/keys", json=first)).body["key"]
    for later in ({}, {"expires_at_ms": ends + 1}):
        made = await client("POST", "/v1/keys", token=key, json={"name": "x", **later})
        assert (made.status, made.body["code"]) == (403, "access_denied")
        assert "outlasts" in made.body["detail"]
    assert (await client("POST", "/v1/keys", token=key, json=first)).status == 201


async def test_packs_of_others_do_not_exist(client: Any) -> None:
    made = await client("POST", "/v1/packs", json={"title": "My pack", "servers": ["aws"]})
    assert made.status == 201
    pack = made.body["id"]
    assert pack.startswith("my-pack-")
    path = f"/v1/packs/{pack}"
    absent = await client("GET", "/v1/packs/no-such", token=BOB)
    for method, more in (("GET", {}), ("PUT", {"json": {"title": "Taken"}}), ("DELETE", {})):
        found = await client(method, path, token=BOB, **more)
        assert found.status == 404
        assert found.body["detail"] == absent.body["detail"]
    stolen = await client("POST", "/v2/track_installation", token=BOB, json={"pack_id": pack})
    never = await client("POST", "/v2/track_installation", token=BOB, json={"pack_id": "no-such"})
    assert stolen.status == never.status == 422
    assert stolen.body["detail"] == never.body["detail"]
    assert (await client("GET", "/v1/packs", token=BOB)).body["packs"] == []
    await client("POST", "/v2/track_installation", json={"pack_id": pack})
    assert set(await client.names("/v2/retrieve_tools", query="x")) == {"aws__deploy", "aws__logs"}
    changed = await client("PUT", path, json={"title": "My pack", "tools": ["aws__logs"]})
    assert changed.body["servers"] == []
    assert await client.names("/v2/retrieve_tools", query="x") == ["aws__logs"]
    assert (await client("DELETE", path)).status == 204
    assert await client.names("/v2/retrieve_tools", query="x") == []


async def test_users_keys_and_packs_are_listed_part_by_part(client: Any) -> None:
    accounts = client.service.accounts
    made = [(await accounts.keys.create(str(number)))[0].id for number in range(5)]
    for name in "abcde":
        await accounts.users.create(name)
        shared = {"title": name, "id": name, "shared": True}
        assert (await client("POST", "/v1/packs", token=ADMIN, json=shared)).status == 201
    for of, everything in (
        ("keys", [key.id for key in await accounts.keys.list()]),
        ("users", [user.id for user in await accounts.users.list()]),
        ("packs", list("abcde")),
    ):
        listed: list[str] = []
        after = ""
        while after is not None:
            path = f"/v1/{of}?limit=2&after={after}"
            part = (await client("GET", path, token=ADMIN)).body
            assert 0 < len(part[of]) <= 2, path
            listed += [entry["id"] for entry in part[of]]
            after = part["next"]
        assert listed == everything
    assert set(made) <= {key.id for key in await accounts.keys.list()}
    for token, of_others in ((ADMIN, "no-such"), (ANN, made[0])):
        gone = await client("GET", f"/v1/keys?after={of_others}", token=token)
        assert (gone.status, gone.body["parameter"]) == (422, "after")


async def test_no_key_and_no_pack_is_left_out_in_silence(client: Any) -> None:
    accounts = client.service.accounts
    async with accounts.feed.transaction() as change:
        row = {
            "title": "t",
            "description": "",
            "owner": None,
            "created_at_ms": 0,
            "updated_at_ms": 0,
        }
        rows = [{"id": f"p{number:04}", **row} for number in range(1_001)]
        await change.connection.execute(insert(packs), rows)
    first = (await client("GET", "/v1/packs")).body
    assert (len(first["packs"]), first["next"]) == (1_000, "p0999")
    rest = (await client("GET", f"/v1/packs?after={first['next']}")).body
    assert ([pack["id"] for pack in rest["packs"]], rest["next"]) == (["p1000"], None)


async def test_a_pack_that_can_be_nobodys_own_is_not_shared_against_what_is_said(
    client: Any,
) -> None:
    made = {"title": "Ops", "servers": ["slack"]}
    said = await client("POST", "/v1/packs", token=ADMIN, json={**made, "shared": False})
    assert (said.status, said.body["parameter"]) == (422, "shared")
    said = await client("POST", "/v1/packs", token=ADMIN, json=made)
    assert (said.status, said.body["owner"]) == (201, None)


async def test_shared_packs_are_the_administrators(client: Any) -> None:
    shared = {"title": "Ops", "id": "ops", "shared": True, "servers": ["slack"]}
    assert (await client("POST", "/v1/packs", json=shared)).status == 403
    assert (await client("POST", "/v1/packs", token=ADMIN, json=shared)).status == 201
    again = await client("POST", "/v1/packs", token=ADMIN, json=shared)
    assert (again.status, again.body["code"]) == (409, "already_exists")
    assert [p["id"] for p in (await client("GET", "/v1/packs")).body["packs"]] == ["ops"]
    assert (await client("DELETE", "/v1/packs/ops")).status == 403
    assert (await client("DELETE", "/v1/packs/ops", token=ADMIN)).status == 204


async def test_administration_is_for_administrators(client: Any) -> None:
    for method, path, more in (
        ("GET", "/v1/users", {}),
        ("POST", "/v1/users", {"json": {"id": "eve"}}),
        ("POST", "/v2/index_tools", {"json": {"tools": [{"name": "x"}]}}),
        ("GET", "/v1/usage?user=bob", {}),
        ("GET", "/v1/quota?user=bob", {}),
        ("GET", "/v1/queries?user=bob", {}),
    ):
        found = await client(method, path, **more)
        assert found.status == 403, path
        assert (await client(method, path, token=ADMIN, **more)).status < 300, path
    assert (await client("GET", "/v1/usage", token=SERVICE)).status == 403


async def test_statistics_of_tools_say_how_long_their_servers_were_up(client: Any) -> None:
    usage = client.service.accounts.usage
    usage.called("ann", "aws__logs", ok=True, latency_ms=20)
    usage.called("ann", "slack__notify", ok=True, latency_ms=20)
    usage.observed({"aws": True}, 3_000)
    usage.observed({"aws": False}, 1_000)
    await usage.flush()
    await usage.refresh()
    found = (await client("GET", "/v1/usage/tools", token=ADMIN)).body["tools"]
    up = {tool["tool"]: tool["uptime"] for tool in found}
    assert up == {"aws__logs": 0.75, "slack__notify": 1.0}  # 1 where nobody has looked


async def test_statistics_of_many_tools_are_put_together_beside_the_event_loop(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = client.service.accounts.usage
    for number in range(1_200):
        usage.called("ann", f"aws__tool{number}", ok=True, latency_ms=20)
    await usage.flush()
    await usage.refresh()
    behind, seen = usage.uptime_behind, set[threading.Thread]()

    def noted(tool: str) -> float:
        seen.add(threading.current_thread())
        return behind(tool)

    monkeypatch.setattr(usage, "uptime_behind", noted)
    found = (await client("GET", "/v1/usage/tools", token=ADMIN)).body["tools"]
    assert {tool["tool"] for tool in found} == {f"aws__tool{number}" for number in range(1_200)}
    assert seen
    assert threading.main_thread() not in seen


async def test_administrators_change_users_and_their_credentials_follow(client: Any) -> None:
    made = await client("POST", "/v1/users", token=ADMIN, json={"id": "eve", "plan": "tiny"})
    assert (made.status, made.body["plan"]) == (201, "tiny")
    key = (await client("POST", "/v1/keys", token=ADMIN, json={"name": "k", "user": "eve"})).body
    assert (await client("GET", "/v1/quota", token=key["key"])).body["queries_limit"] == 2
    path = "/v1/users/eve"
    changed = await client("PATCH", path, token=ADMIN, json={"plan": "free", "is_active": False})
    assert changed.body["is_active"] is False
    assert (await client("GET", "/v1/quota", token=key["key"])).status == 401
    await client("PATCH", path, token=ADMIN, json={"is_active": True})
    assert (await client("GET", "/v1/quota", token=key["key"])).body["queries_limit"] is None
    assert (await client("GET", path, token=ADMIN)).body["id"] == "eve"
    assert (await client("DELETE", path, token=ADMIN)).status == 204
    assert (await client("GET", "/v1/quota", token=key["key"])).status == 401
    for method, more in (("GET", {}), ("DELETE", {}), ("PATCH", {"json": {"plan": "tiny"}})):
        assert (await client(method, path, token=ADMIN, **more)).status == 404


async def test_a_plan_that_does_not_exist_is_refused(client: Any) -> None:
    new = await client("POST", "/v1/users", token=ADMIN, json={"id": "eve", "plan": "tniy"})
    assert (new.status, new.body["parameter"]) == (422, "plan")
    assert new.body["detail"] == "there is no plan 'tniy'; accounts.plans has: free, tiny"
    other = await client("PATCH", "/v1/users/lim", token=ADMIN, json={"plan": "tniy"})
    assert (other.status, other.body["parameter"]) == (422, "plan")
    assert (await client("GET", "/v1/users/lim", token=ADMIN)).body["plan"] == "tiny"


@pytest.mark.parametrize("name", [".", ".."])
async def test_names_that_no_url_could_address_are_refused(client: Any, name: str) -> None:
    new = await client("POST", "/v1/users", token=ADMIN, json={"id": name})
    assert (new.status, new.body["parameter"]) == (422, "id")


async def test_servers_and_tools_that_do_not_exist_or_are_hidden_are_refused(client: Any) -> None:
    for wrong, parameter in (
        ({"server": "awz"}, "server"),
        ({"server": "secret"}, "server"),
        ({"tool_name": "aws__log"}, "tool_name"),
        ({"tool_name": "secret__vault"}, "tool_name"),
    ):
        refused = await client("POST", "/v2/track_installation", json=wrong)
        assert (refused.status, refused.body["parameter"]) == (422, parameter)
        assert refused.body["detail"] == (
            f"there is no {parameter.removesuffix('_name')} {next(iter(wrong.values()))!r}"
        )
    assert (await client("GET", "/v1/installations")).body["installations"] == []
    for wrong in ({"servers": ["secret"]}, {"tools": ["aws__log"]}):
        new = await client("POST", "/v1/packs", json={"title": "t", **wrong})
        assert (new.status, new.body["parameter"]) == (422, next(iter(wrong)))
    shared = {"title": "t", "id": "s", "shared": True, "servers": ["secret"]}
    assert (await client("POST", "/v1/packs", token=ADMIN, json=shared)).status == 201


async def test_installations_are_listed_switched_and_removed(client: Any) -> None:
    await client("POST", "/v2/track_installation", json={"server": "aws", "tool_name": "aws__logs"})
    listed = (await client("GET", "/v1/installations")).body["installations"]
    assert [(entry["kind"], entry["value"]) for entry in listed] == [
        ("server", "aws"),
        ("tool", "aws__logs"),
    ]
    assert (await client("DELETE", "/v1/installations/tool/aws__logs")).status == 204
    assert (await client("DELETE", "/v1/installations/tool/aws__logs")).status == 404
    odd = await client("DELETE", "/v1/installations/other/a")
    assert (odd.status, odd.body["parameter"]) == (422, "kind")
    none = await client("POST", "/v2/track_installation", json={})
    assert none.status == 422
    missing = await client("PUT", "/v1/installations/server/x", json={"is_active": True})
    assert missing.status == 404
