"""`tools/manifest` and `tools/describe` (draft SEP-2636), in both eras, and nothing by default."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from armory.gateway.lists.manifest import MAX_NAMES
from armory.gateway.settings import MANIFEST
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import LegacyClient
from armory.testing.front import tool

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
ENTRIES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["name", "digest"],
        "properties": {
            "name": {"type": "string"},
            "title": {"type": "string"},
            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            "annotations": {"type": "object"},
        },
        "additionalProperties": False,
    },
}


@pytest.fixture
def front(front: Front) -> Front:
    settings = replace(front.gateway.view.settings, experimental=frozenset({MANIFEST}))
    front.gateway.reconfigure(settings=settings)
    return front


async def told(front: Front, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    """The result of a modern request."""
    status, message = await front.modern(method, params, **more)
    assert status == 200, message
    return message["result"]


def digest(definition: dict[str, Any]) -> str:
    """As a client makes it of what it holds; there are no numbers that need more than this."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize("headers", [{}, {"X-Armory-Mode": "search"}, {"X-Armory-Query": "time"}])
async def test_it_indexes_what_is_listed_and_describes_that(
    front: Front, headers: dict[str, str]
) -> None:
    discovered = await told(front, "server/discover")
    assert discovered["capabilities"]["tools"] == {"listChanged": True, "manifest": True}
    listed = await told(front, "tools/list", headers=headers)
    found = await told(front, "tools/manifest", headers=headers)
    Draft202012Validator(ENTRIES).validate(found["entries"])
    assert [(e["name"], e["digest"]) for e in found["entries"]] == [
        (tool["name"], digest(tool)) for tool in listed["tools"]
    ]
    assert found.keys() - {"entries"} == listed.keys() - {"tools"}
    names = [entry["name"] for entry in reversed(found["entries"])]
    described = await told(front, "tools/describe", {"names": names}, headers=headers)
    assert described["tools"] == listed["tools"][::-1]
    assert described["resultType"] == "complete"
    assert "ttlMs" not in described


async def test_a_legacy_client_has_both(front: Front) -> None:
    client: LegacyClient = await front.start_legacy()
    assert client.hello["capabilities"]["tools"]["manifest"] is True
    listed = (await client.request("tools/list"))["result"]["tools"]
    found = (await client.request("tools/manifest"))["result"]
    assert found.keys() == {"entries"}
    assert [entry["digest"] for entry in found["entries"]] == [digest(one) for one in listed]
    names = [listed[0]["name"]]
    described = (await client.request("tools/describe", {"names": names}))["result"]
    assert described == {"tools": listed[:1]}


async def test_only_what_changed_has_another_digest(front: Front) -> None:
    before = {e["name"]: e for e in (await told(front, "tools/manifest"))["entries"]}
    lists = front.pool.upstreams["new"].lists
    changed = tool("echo", "says what it hears, louder", annotations={"readOnlyHint": True})
    front.pool.upstreams["new"].lists = replace(
        lists, tools=[changed if one["name"] == "echo" else one for one in lists.tools]
    )
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
    after = {e["name"]: e for e in (await told(front, "tools/manifest"))["entries"]}
    assert {name for name in before if before[name] != after[name]} == {"new__echo"}
    assert after["new__echo"]["annotations"] == {"readOnlyHint": True}


async def test_what_is_hidden_is_no_other_than_what_is_not_there(front: Front) -> None:
    front.gateway.reconfigure(policy=Policy([Rule(allow=("old__*",))]))
    shown = [entry["name"] for entry in (await told(front, "tools/manifest"))["entries"]]
    assert shown == ["old__now", "old__echo", "old__fail"]
    for name in ("new__now", "new__nothing"):
        names = ["old__now", name]
        _, message = await front.modern("tools/describe", {"names": names})
        assert message["error"]["code"] == -32602
        assert message["error"]["data"] == {"unknownNames": [name]}
        assert message["error"]["message"] == f"Unknown tool names: {name}"


@pytest.mark.parametrize(
    ("names", "data"),
    [
        ([], {"reason": "empty"}),
        (["old__now"] * (MAX_NAMES + 1), {"maxNames": MAX_NAMES}),
        (None, None),
        ("old__now", None),
        ([1], None),
    ],
)
async def test_names_that_cannot_be_described_are_refused(
    front: Front, names: Any, data: Any
) -> None:
    params = {} if names is None else {"names": names}
    _, message = await front.modern("tools/describe", params)
    assert message["error"]["code"] == -32602
    assert message["error"].get("data") == data
    assert "names" in message["error"]["message"]


async def test_a_cursor_is_none_of_ours(front: Front) -> None:
    _, message = await front.modern("tools/manifest", {"cursor": "x"})
    assert message["error"]["code"] == -32602


async def test_by_default_there_is_nothing_of_it(front: Front) -> None:
    settings = replace(front.gateway.view.settings, experimental=frozenset())
    front.gateway.reconfigure(settings=settings)
    discovered = await told(front, "server/discover")
    assert "manifest" not in discovered["capabilities"]["tools"]
    for method in ("tools/manifest", "tools/describe"):
        _, message = await front.modern(method, {"names": ["old__now"]})
        assert message["error"]["code"] == -32601
