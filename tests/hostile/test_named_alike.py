"""Nobody is taken for a caller without a user by being called like one."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
import yaml

from armory.config import load_file, load_text
from armory.runtime import open_runtime
from armory.testing.people import TOKENS, Browser, World
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
SECRET, CI = "a-secret-of-the-identity-provider", "the-token-of-the-builds"


def of_person(name: str) -> str:
    """A session token whose person chose its name."""
    claims = {"sub": "1", "name": name, "iss": "https://id.example", "exp": int(time.time()) + 600}
    return jwt.encode(claims, SECRET, "HS256")


async def test_what_a_token_did_is_not_shown_to_a_person_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    async with HttpUpstream() as upstream:
        config = {
            "upstreams": {"web": {"url": upstream.url}},
            "storage": {"url": f"sqlite:///{tmp_path / 'armory.db'}"},
            "security": {
                "tokens": {"ci": {"token": CI}},
                "jwt": {
                    "issuer": "https://id.example",
                    "secret": SECRET,
                    "algorithms": ["HS256"],
                    "user_claim": "name",
                },
            },
            "tool_rag": {"enabled": False},
            "observability": {"log_level": "error", "activity": {"arguments": True}},
        }
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        async with (
            open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime,
            aiohttp.ClientSession() as http,
        ):
            await until(lambda: "web__who" in runtime.gateway.view.catalog.tools)
            assert runtime.listening is not None
            base = runtime.listening.url

            async def ask(method: str, path: str, token: str, **body: Any) -> tuple[int, Any]:
                headers = {"Authorization": f"Bearer {token}"}
                given = body or None
                async with http.request(method, base + path, headers=headers, json=given) as said:
                    return said.status, await said.json()

            called, _ = await ask(
                "POST", "/v1/tools/web__who/call", CI, arguments={"plan": "the secret plan"}
            )
            assert called == 200
            assert (await ask("GET", "/v1/activity", CI))[1]["entries"]
            status, own = await ask("GET", "/v1/activity", of_person("eve"))
            assert (status, own["entries"]) == (200, [])
            for path in ("/v1/activity", "/v1/activity/1", "/v1/usage"):
                status, said = await ask("GET", path, of_person("token:ci"))
                assert status == 401, path
                assert "secret plan" not in str(said)


async def test_what_a_deleted_user_did_is_not_shown_to_the_next_one_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    async with HttpUpstream() as upstream:
        config = {
            "upstreams": {"web": {"url": upstream.url}},
            "storage": {"url": f"sqlite:///{tmp_path / 'armory.db'}"},
            "security": {"tokens": {"root": {"token": CI, "scopes": ["admin"]}}, "api_keys": True},
            "accounts": {"enabled": True},
            "tool_rag": {"embedding_model": "none"},
            "observability": {"log_level": "error", "activity": {"arguments": True}},
        }
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        async with (
            open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime,
            aiohttp.ClientSession() as http,
        ):
            await runtime.searchable()
            assert runtime.listening is not None
            assert runtime.accounts is not None
            base = runtime.listening.url

            async def ask(method: str, path: str, token: str, **body: Any) -> Any:
                headers = {"Authorization": f"Bearer {token}"}
                given = body or None
                async with http.request(method, base + path, headers=headers, json=given) as said:
                    assert said.status < 300, await said.text()
                    return await said.json() if said.status != 204 else None

            async def key() -> str:
                await ask("POST", "/v1/users", CI, id="ann")
                made = (await ask("POST", "/v1/keys", CI, name="k", user="ann"))["key"]
                await ask("POST", "/v2/track_installation", made, server="web")
                return made

            async def known(token: str) -> list[Any]:
                return [
                    (await ask("GET", "/v1/activity", token))["entries"],
                    (await ask("GET", "/v1/activity/minutes", token))["minutes"],
                    (await ask("GET", "/v1/queries", token))["queries"],
                ]

            first = await key()
            asking = "/v1/retrieve_tools?query=divorce+lawyer"
            for _ in range(2):
                await ask("GET", asking, first)
                await ask("POST", "/v1/tools/web__who/call", first, arguments={"plan": "secret"})
                await runtime.accounts.flush()
            await ask("GET", asking, first)
            assert all(await known(first))
            number = (await known(first))[0][0]["seq"]
            await ask("DELETE", "/v1/users/ann", CI)
            second = await key()
            await runtime.accounts.flush()
            assert await known(second) == [[], [], []]
            headers = {"Authorization": f"Bearer {second}"}
            async with http.get(f"{base}/v1/activity/{number}", headers=headers) as said:
                assert said.status == 404
            await ask("POST", "/v1/tools/web__who/call", second, arguments={"plan": "mine"})
            own = (await ask("GET", "/v1/activity", second))["entries"]
            said = await ask("GET", f"/v1/activity/{own[0]['seq']}", second)
            assert (len(own), said["arguments"]) == (1, '{"plan":"mine"}')


async def test_a_login_of_somebody_deleted_is_not_the_next_ones_of_its_name(world: World) -> None:
    tokens = {name: {"token": token, "user": name} for name, token in TOKENS.items()}
    people: dict[str, Any] = {**tokens, "root": {"token": CI, "scopes": ["admin"]}}
    async with (
        world.gateway(tokens=people, accounts={"enabled": True}) as (url, _),
        Browser(world, url) as browser,
    ):
        for name in TOKENS:
            assert "Connected" in await browser.connect(name)
            await browser.click("leave")

        async def delete(user: str) -> int:  # nobody has made a key here, or installed a pack
            headers = {"Authorization": f"Bearer {CI}"}
            async with world.http.delete(f"{url}/v1/users/{user}", headers=headers) as answer:
                return answer.status

        async def connected(name: str) -> bool:
            headers = {"Authorization": f"Bearer {TOKENS[name]}"}
            async with world.http.get(f"{url}/v1/logins", headers=headers) as answer:
                return any(one["connected"] for one in (await answer.json())["logins"])

        assert await connected("ann")
        assert await delete("ann") == 204
        assert [await connected(name) for name in TOKENS] == [False, True]
        assert (await delete("ann"), await delete("nobody")) == (404, 404)


async def test_a_login_that_ends_after_its_person_was_deleted_is_nobodys(world: World) -> None:
    async with (
        world.gateway(api_keys=True, accounts={"enabled": True}) as (url, runtime),
        Browser(world, url) as browser,
    ):
        accounts = runtime.accounts
        assert accounts is not None

        async def key_of_ann() -> str:
            await accounts.users.create("ann")
            return (await accounts.keys.create("laptop", user="ann"))[1]

        await browser.click("identify", credential=await key_of_ann())
        asked, answer = world.provider.held = asyncio.Event(), asyncio.Event()
        connecting = asyncio.create_task(browser.click("connect"))
        async with asyncio.timeout(20):
            await asked.wait()
        await accounts.users.delete("ann")
        answer.set()
        status, page = await connecting
        assert (status, "Connected" in page) == (403, False)
        headers = {"Authorization": f"Bearer {await key_of_ann()}"}
        async with world.http.get(f"{url}/v1/logins", headers=headers) as said:
            assert not any(one["connected"] for one in (await said.json())["logins"])
        assert world.provider.refresh_tokens == []


async def test_nobody_with_a_session_token_is_called_like_a_user_of_another_issuer(
    tmp_path: Path,
) -> None:
    first, second = "https://one.example", "https://two.example"
    provider = {"client_id": "armory", "client_secret": "armory-secret"}
    proxy = {"issuer": first, "id_jag_issuers": [second], **provider}
    behind: list[dict[str, Any]] = [{"issuer": [first, second]}, {"proxy": proxy}]
    for number, oauth in enumerate(behind):
        config = {
            "security": {
                "jwt": {"secret": SECRET, "user_claim": "name"},
                "oauth": oauth,
                "encryption_key": "a-key-of-sixteen-or-more",
            },
            "tool_rag": {"enabled": False},
            "observability": {"log_level": "error"},
        }
        home = str(tmp_path / str(number))
        loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": home})
        async with (
            open_runtime(loaded, address=("127.0.0.1", 0)) as runtime,
            aiohttp.ClientSession() as http,
        ):
            assert runtime.listening is not None
            me = f"{runtime.listening.url}/v1/me"

            async def who(name: str, me: str = me, http: aiohttp.ClientSession = http) -> Any:
                headers = {"Authorization": f"Bearer {of_person(name)}"}
                async with http.get(me, headers=headers) as said:
                    return (await said.json()).get("user")

            assert await who("ann") == "ann"
            assert await who(f"{second}|ann") is None
