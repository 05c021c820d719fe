"""What policy bars does not exist: no answer tells it from what is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from armory.config import load_file
from armory.runtime import open_runtime
from armory.testing.people import TOKENS, Browser, World
from armory.testing.upstreams.http import HttpUpstream

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
HIDDEN, NOTHING = "vault", "zebra"
Ask = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
async def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ask]:
    """Asks a gateway with an upstream, and a set of it, of which `bob` sees nothing."""
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    async with HttpUpstream() as one, HttpUpstream() as other:
        config = {
            "upstreams": {"web": {"url": one.url}, HIDDEN: {"url": other.url}},
            "sets": {"open": {"servers": ["web"]}, f"{HIDDEN}-set": {"servers": [HIDDEN]}},
            "accounts": {"enabled": True},
            "storage": {"url": f"sqlite:///{tmp_path / 'armory.db'}"},
            "security": {
                "tokens": {
                    "root": {"token": "token-of-root", "user": "root", "scopes": ["admin"]},
                    "bob": {"token": "token-of-bob", "user": "bob"},
                },
                "policies": [
                    {"who": ["admin"], "allow": ["*"]},
                    {"who": ["bob"], "allow": ["web__*"]},
                ],
            },
            "tool_rag": {"embedding_model": "none"},
            "observability": {"log_level": "error"},
        }
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        async with (
            open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime,
            aiohttp.ClientSession() as http,
        ):
            await runtime.searchable()
            assert runtime.listening is not None
            base = runtime.listening.url

            async def asked(
                method: str, path: str, who: str = "bob", **body: Any
            ) -> tuple[int, Any]:
                headers = {"Authorization": f"Bearer token-of-{who}"}
                given = body or None
                async with http.request(method, base + path, headers=headers, json=given) as said:
                    return said.status, await said.json()

            yield asked


async def test_endpoints_and_sets_of_others_are_not_there(ask: Ask) -> None:
    await ask("POST", "/v2/track_installation", server="web")
    for path, body in (
        ("/v1/search", {"queries": ["time"], "endpoint": "{}"}),
        ("/v1/search", {"queries": ["time"], "endpoint": "set/{}-set"}),
        ("/v1/tools?set={}-set", {}),
        ("/mcp/{}", {}),
        ("/mcp/set/{}-set", {}),
        ("/v2/track_installation", {"server": "{}"}),
    ):
        answers: list[Any] = []
        for name in (HIDDEN, NOTHING):
            filled = {k: v.format(name) if isinstance(v, str) else v for k, v in body.items()}
            method = "GET" if path.startswith("/v1/tools") else "POST"
            status, said = await ask(method, path.format(name), **filled)
            said.pop("request_id", None)
            answers.append((status, str(said).replace(name, "NAME")))
        assert answers[0] == answers[1], path
    for path in ("/.well-known/mcp.json", "/v1/me"):
        status, said = await ask("GET", path)
        assert status == 200
        assert "open" in str(said)
        assert HIDDEN not in str(said)
    assert HIDDEN in str(await ask("GET", "/v1/me", who="root"))
    assert (await ask("GET", f"/v1/tools?set={HIDDEN}-set", who="root"))[0] == 200


async def test_of_a_shared_pack_is_shown_what_may_be_known(ask: Ask) -> None:
    tools = ["web__who", f"{HIDDEN}__who"]
    pack = {"id": "work", "title": "Work", "shared": True, "servers": ["web", HIDDEN]}
    assert (await ask("POST", "/v1/packs", who="root", tools=tools, **pack))[0] == 201
    assert (await ask("GET", "/v1/packs/work", who="root"))[1]["servers"] == ["vault", "web"]
    _, one = await ask("GET", "/v1/packs/work")
    _, all_of_them = await ask("GET", "/v1/packs")
    for shown in (one, *all_of_them["packs"]):
        assert (shown["servers"], shown["tools"]) == (["web"], ["web__who"])


async def test_nobody_connects_an_account_where_it_sees_nothing(world: World) -> None:
    people: dict[str, dict[str, Any]] = {
        name: {"token": token, "user": name} for name, token in TOKENS.items()
    }
    people["ann"]["scopes"] = ["docs"]
    policies = [{"who": ["docs"], "allow": ["docs__note"]}, {"who": ["bob"], "allow": ["x__*"]}]
    async with (
        world.gateway(tokens=people, policies=policies) as (url, _),
        Browser(world, url) as ann,
        Browser(world, url) as bob,
    ):
        assert "Connected" in await ann.connect("ann")

        async def seen(server: str) -> list[tuple[int, str]]:
            page, headers = f"{url}/connect/{server}", {"Origin": url}
            answers: list[tuple[int, str]] = []
            for form in ({"action": "identify", "credential": TOKENS["bob"]}, None,
                         {"action": "connect"}, {"action": "disconnect"}):  # fmt: skip
                method = "GET" if form is None else "POST"
                async with bob.http.request(
                    method, page, data=form, headers=headers, allow_redirects=False
                ) as got:
                    said = f"{await got.text()} {got.headers.get('Location')}"
                    answers.append((got.status, said.replace(server, "SERVER")))
            return answers

        assert await seen("docs") == await seen(NOTHING)
