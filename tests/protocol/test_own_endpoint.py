"""What an upstream says at its own endpoint beside `tools/list` has nothing that the caller may not
see there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.groups import OwnGroup
from armory.protocol.capabilities import GROUPS_DECLARED
from armory.protocol.codes import BACKEND
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.scanning.taking_apart import MOST_MEMBERS
from armory.security.policy import Policy, Rule
from armory.testing.front import plain, result, tool

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
HIDDEN = tool("drop", "drops everything")
TOOLS = [tool("now", "poisoned since it was listed"), tool("echo", "says"), HIDDEN]
GROUPS = [{"name": "clocks"}, {"name": "danger"}, {"name": "unheard-of"}]


async def answer(call: Call, _owner: Owner) -> Reply:
    """An upstream with manifests and groups, in which is more than it lists."""
    asked = plain(call.params)
    match call.method:
        case "tools/manifest":
            said: dict[str, Any] = {"entries": [{"name": one["name"]} for one in TOOLS]}
        case "tools/describe":
            said = {"tools": [one for one in TOOLS if one["name"] in asked["names"]]}
        case "groups/list":
            said = {"groups": GROUPS}
        case "groups/get":
            within = {"clocks": TOOLS[:2], "danger": [HIDDEN]}.get(asked["name"], [])
            inner = GROUPS[1:] if asked["name"] == "clocks" else []
            contents = {
                "tools": within,
                "groups": inner,
                "prompts": [{"name": "greet"}, {"name": "scold"}],
                "resources": [{"uri": "file:///readme"}, {"uri": "file:///secret"}],
                "resourceTemplates": [{"uriTemplate": "file:///secret/{name}"}],
            }
            said = {"contents": contents if within else {}, "kept": {"x": 1}}
        case _:
            said = {"everything": "there is"}
    return result({"resultType": "complete", **said}, "modern")


@pytest.fixture
def front(front: Front) -> Front:
    upstream = front.pool.upstreams["new"]
    upstream.answer = answer
    groups = (OwnGroup("clocks", tools=("now", "echo")), OwnGroup("danger", tools=("drop",)))
    upstream.lists = replace(upstream.lists, groups=groups)
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
    return front


def narrow(front: Front) -> None:
    """From now on callers see a part of the upstream."""
    allowed = ("new__now", "new__greet", "new+file:///readme")
    front.gateway.reconfigure(policy=Policy([Rule(allow=allowed)]))


async def asked(front: Front, method: str, **params: Any) -> dict[str, Any]:
    _, message = await front.modern(method, params, path="/mcp/new", capabilities=GROUPS_DECLARED)
    return message


async def named(front: Front, method: str, member: str, **params: Any) -> list[str]:
    return [one["name"] for one in (await asked(front, method, **params))["result"][member]]


async def test_manifests_and_definitions_are_of_tools_that_are_seen(front: Front) -> None:
    assert await named(front, "tools/manifest", "entries") == ["now", "echo"]
    narrow(front)
    assert await named(front, "tools/manifest", "entries") == ["now"]
    for name in ("echo", "drop", "nothing"):
        message = await asked(front, "tools/describe", names=["now", name])
        assert message["error"]["code"] == -32602
        assert message["error"]["data"] == {"unknownNames": [name]}
    described = (await asked(front, "tools/describe", names=["now"]))["result"]["tools"]
    pinned = front.pool.upstreams["new"].lists.tools[0]
    assert described == [pinned]  # and not what it says by now


async def test_groups_have_what_is_seen(front: Front) -> None:
    assert await named(front, "groups/list", "groups") == ["clocks", "unheard-of"]
    whole = (await asked(front, "groups/get", name="clocks"))["result"]["contents"]
    assert "resourceTemplates" in whole
    narrow(front)
    assert await named(front, "groups/list", "groups") == ["clocks"]
    found = (await asked(front, "groups/get", name="clocks"))["result"]
    assert found["kept"] == {"x": 1}
    contents = found["contents"]
    assert [one["name"] for one in contents["tools"]] == ["now"]
    assert "poisoned" not in str(contents)
    assert contents["prompts"] == [{"name": "greet"}]
    assert contents["resources"] == [{"uri": "file:///readme"}]
    assert contents["groups"] == []
    assert "secret" not in str(contents)


@pytest.mark.parametrize("within", ["result", "contents"])
async def test_what_cannot_be_looked_through_is_not_shown(front: Front, within: str) -> None:
    """An answer with more members than are opened would pass whole."""
    wide = {f"k{number}": "x" * 100 for number in range(2 * MOST_MEMBERS)}
    listed = {"entries": [HIDDEN], "tools": [HIDDEN], "groups": [HIDDEN], "tasks": [HIDDEN]}
    shown = {**wide, **listed} if within == "result" else {"contents": {**wide, **listed}}

    async def say(_call: Call, _owner: Owner) -> Reply:
        return result({"resultType": "complete", **shown}, "modern")

    narrow(front)
    front.pool.upstreams["new"].answer = say
    ways: list[tuple[str, dict[str, Any]]] = [("groups/get", {"name": "clocks"})]
    if within == "result":
        ways += [("tools/manifest", {}), ("tools/describe", {"names": ["now"]})]
        ways += [("groups/list", {}), ("tasks/list", {})]
    for method, params in ways:
        message = await asked(front, method, **params)
        assert message["error"]["code"] == BACKEND, method
        assert "drop" not in str(message)


async def test_a_group_of_which_nothing_is_seen_does_not_exist(front: Front) -> None:
    front.gateway.reconfigure(policy=Policy([Rule(allow=("new__now",))]))
    message = await asked(front, "groups/get", name="danger")
    assert message["error"]["code"] == -32002
    assert message["error"]["data"] == {"name": "danger"}


async def test_what_the_gateway_cannot_judge_is_for_those_who_see_all(front: Front) -> None:
    assert (await asked(front, "x/reveal"))["result"]["everything"] == "there is"
    front.gateway.reconfigure(policy=Policy([Rule(allow=("new*",))]))
    assert "result" in await asked(front, "x/reveal")
    narrow(front)
    for method in ("x/reveal", "tasks/reveal"):
        assert (await asked(front, method))["error"]["code"] == -32601
    reference = {"type": "ref/tool", "name": "drop"}
    completed = await asked(front, "completion/complete", ref=reference)
    assert completed["error"]["code"] == -32602
    front.gateway.reconfigure(policy=Policy())
    assert "result" in await asked(front, "completion/complete", ref=reference)
