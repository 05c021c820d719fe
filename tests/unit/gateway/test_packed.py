"""What packs bring can be used, whatever it is called; what they do not bring cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.security.authentication import Authenticator, StaticToken
from armory.security.packs import NamedPack, PackView
from armory.security.policy import Policy
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving

pytestmark = pytest.mark.anyio
LONG = "io-github-somebody-a-server-with-a-rather-long-name"
LISTS = ServerLists(
    tools=[{"name": "note", "inputSchema": {"type": "object"}}],
    prompts=[{"name": "note"}],
    capabilities={"tools": {}, "prompts": {}},
)


class Active:
    """What everybody has active."""

    def view_of(self, user: str) -> PackView:
        del user
        return PackView("own", frozenset((LONG,)), frozenset(("docs__note",)))

    def packs_of(self, user: str) -> Sequence[NamedPack]:
        del user
        return ()


async def answer(_call: Call, _owner: Owner) -> Reply:
    return result({"content": [], "messages": []})


async def test_what_is_listed_can_be_used_and_nothing_else() -> None:
    """A prompt that is called like a packed tool comes with its server alone; a tool whose name was
    cut within that of its server comes with that.
    """
    pool = ScriptedPool({name: ScriptedUpstream(LISTS, answer) for name in ("docs", LONG)})
    gateway = Gateway(pool, policy=Policy(packs=Active()))
    gateway.publish(pool.catalog())
    ann = Authenticator([StaticToken("t", "token-of-ann", user="ann")], allow_anonymous=False)
    async with serving(gateway, ann) as (url, _), aiohttp.ClientSession() as http:

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            body = modern_body(1, method, params)
            headers = {**modern_headers(body), "Authorization": "Bearer token-of-ann"}
            async with http.post(f"{url}/mcp", json=body, headers=headers) as said:
                return (await messages(said))[-1]

        exposed = {
            kind: {r.server: name for name, r in getattr(gateway.view.catalog, kind).items()}
            for kind in ("tools", "prompts")
        }
        for method, kind, servers in (
            ("tools/call", "tools", {"docs", LONG}),
            ("prompts/get", "prompts", {LONG}),
        ):
            listed = (await ask(f"{kind}/list"))["result"][kind]
            assert {one["name"] for one in listed} == {exposed[kind][one] for one in servers}
            for server, name in exposed[kind].items():
                assert ("result" in await ask(method, name=name)) is (server in servers), name
