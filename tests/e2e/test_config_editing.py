"""`armory.yaml` over REST: seen without secrets, checked, replaced, and in force by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.config import load_file
from armory.runtime import open_runtime
from armory.testing.servers import RedisServer

pytestmark = pytest.mark.anyio
ROOT, ANN = "the-token-of-the-operator", "the-token-of-a-reader"
FILE = f"""\
# what this gateway is for
server:
  port: 0
  config_editing: true   # administrators
security:
  tokens:
    root: {{token: "{ROOT}", scopes: [admin]}}
    ann: {{token: {ANN}, scopes: [reader]}}
tool_rag: {{enabled: false}}
"""
Ask = Callable[..., Awaitable[tuple[int, Any, Any]]]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    found = tmp_path / "armory.yaml"
    found.write_text(FILE)
    return found


def held(path: Path) -> str:
    return path.read_text()


def hold(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


@asynccontextmanager
async def serving(path: Path) -> AsyncGenerator[Ask]:
    async with (
        open_runtime(load_file(path), address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession() as session,
    ):
        assert runtime.listening is not None
        base = runtime.listening.url

        async def ask(
            method: str,
            rest: str = "",
            *,
            at: str = "configuration",
            token: str = ROOT,
            tag: str | None = None,
            **body: Any,
        ) -> tuple[int, Any, Any]:
            headers = {"Authorization": f"Bearer {token}"}
            if tag is not None:
                headers["If-Match"] = f'"{tag}"'
            url = f"{base}/v1/{at}{rest}"
            given = body or None
            async with session.request(method, url, headers=headers, json=given) as answer:
                return answer.status, await answer.json(), answer.headers

        yield ask


async def test_it_is_edited_with_its_secrets_unseen(path: Path) -> None:
    async with serving(path) as ask:
        status, shown, headers = await ask("GET")
        assert status == 200
        assert headers["ETag"] == f'"{shown["tag"]}"'
        assert (shown["writable"], shown["reason"], shown["problems"]) == (True, None, [])
        assert shown["in_force"] is True
        assert ROOT not in str(shown)
        assert ANN not in str(shown)
        assert "# what this gateway is for" in shown["text"]

        edited = shown["text"].replace("# administrators", "# us").replace("port: 0", "port: 1")
        status, checked, _ = await ask(
            "POST", "/check", tag=shown["tag"], text=edited, effects=True
        )
        assert (status, checked["problems"]) == (200, [])
        assert checked["effects"]["needs_restart"] == ["server"]
        assert held(path) == FILE  # nothing but checked

        status, saved, headers = await ask("PUT", tag=shown["tag"], text=edited)
        assert (status, saved["effects"]["needs_restart"]) == (200, ["server"])
        assert headers["ETag"] == f'"{saved["tag"]}"'
        assert held(path) == FILE.replace("# administrators", "# us").replace("port: 0", "port: 1")
        status, shown, _ = await ask("GET")
        assert (shown["tag"], shown["in_force"]) == (saved["tag"], False)
        _, done, _ = await ask("POST", at="reload")
        assert (done["applied"], done["needs_restart"]) == ([], ["server"])
        _, shown, _ = await ask("GET")  # it has been read, and the gateway still goes by another
        assert (shown["in_force"], shown["needs_restart"]) == (False, ["server"])
        back = shown["text"].replace("port: 1", "port: 0")
        await ask("PUT", tag=shown["tag"], text=back)
        _, done, _ = await ask("POST", at="reload")
        assert (done["applied"], done["needs_restart"]) == ([], [])
        _, shown, _ = await ask("GET")
        assert (shown["in_force"], shown["needs_restart"]) == (True, [])


async def test_what_does_not_hold_is_refused_with_its_place(path: Path) -> None:
    async with serving(path) as ask:
        _, shown, _ = await ask("GET")
        edited = shown["text"].replace("port: 0", "port: many\n  colour: red")
        status, checked, _ = await ask("POST", "/check", tag=shown["tag"], text=edited)
        assert status == 200
        assert [(one["path"], one["line"]) for one in checked["problems"]] == [
            ("server.port", 3),
            ("server.colour", 4),
        ]
        status, refused, _ = await ask("PUT", tag=shown["tag"], text=edited)
        assert (status, refused["code"], refused["parameter"]) == (422, "config", "server.port")
        assert refused["problems"] == checked["problems"]
        gone = shown["text"].replace("<hidden-1>", "<hidden-9>")
        status, refused, _ = await ask("PUT", tag=shown["tag"], text=gone)
        assert status == 422
        assert "<hidden-9>" in refused["detail"]
        assert held(path) == FILE


async def test_a_check_tells_no_variable_and_nothing_hidden(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CLOUD", "hunter-two-of-the-cloud")
    path.with_name(".env").write_text("BESIDE='beside-the-file'\n")
    old = "what-it-was-once"
    hold(path, f"{FILE}# token: {old}\n")
    async with serving(path) as ask:
        _, shown, _ = await ask("GET")
        assert old not in shown["text"]
        for edit in (
            'sets: {a: {servers: ["${OF_THE_CLOUD}"]}}',
            'accounts: {default_plan: "${BESIDE}"}',
            "agent: {max_iterations: <hidden-3>}",
            "agent: {max_iterations: *<hidden-3>}",
            "agent: {max_iterations: <hidden-1>}",
        ):
            text = f"{shown['text']}{edit}\n"
            _, checked, _ = await ask("POST", "/check", tag=shown["tag"], text=text)
            assert checked["problems"], edit
            for value in ("hunter-two", "beside-the-file", old, ROOT):
                assert value not in str(checked), edit
        hold(path, FILE + 'sets: {a: {servers: ["${OF_THE_CLOUD}"]}}\n')
        assert "hunter-two" not in str(await ask("GET"))
        status, said, _ = await ask("POST", at="reload")
        assert (status, "${OF_THE_CLOUD}" in said["detail"]) == (422, True)
        assert "hunter-two" not in str(said)


async def test_somebody_elses_change_is_not_overwritten(path: Path) -> None:
    async with serving(path) as ask:
        _, shown, _ = await ask("GET")
        text = shown["text"]
        first, *_ = await ask("PUT", tag=shown["tag"], text=text + "# mine\n")
        second, said, _ = await ask("PUT", tag=shown["tag"], text=text + "# theirs\n")
        assert (first, second, said["code"]) == (200, 412, "changed_meanwhile")
        assert (await ask("POST", "/check", tag=shown["tag"], text=text))[0] == 412
        assert (await ask("PUT", text=text))[0] == 428
        assert held(path) == FILE + "# mine\n"


async def test_only_administrators_may_and_only_where_it_is_on(path: Path) -> None:
    off = FILE.replace("config_editing: true", "config_editing: false")
    hold(path, off)
    async with serving(path) as ask:
        for method, rest in (("GET", ""), ("GET", "/schema"), ("POST", "/check"), ("PUT", "")):
            status, said, _ = await ask(method, rest, token=ANN)
            assert (status, said["code"]) == (403, "access_denied")
        _, shown, _ = await ask("GET")
        assert shown["writable"] is False
        assert "server.config_editing" in shown["reason"]
        status, said, _ = await ask("PUT", tag=shown["tag"], text=shown["text"])
        assert (status, said["code"]) == (403, "not_writable")
        status, schema, _ = await ask("GET", "/schema")
        assert "config_editing" in schema["$defs"]["ServerConfig"]["properties"]
    hold(path, FILE, mode=0o444)
    async with serving(path) as ask:
        _, shown, _ = await ask("GET")
        assert (shown["writable"], "read-only" in shown["reason"]) == (False, True)
        status, said, _ = await ask("PUT", tag=shown["tag"], text=shown["text"])
        assert (status, said["code"]) == (403, "not_writable")


async def test_who_may_not_edit_does_not_see_short_keys_in_addresses(path: Path) -> None:
    """`appid` names no secret, and four letters look like any value."""
    addressed = FILE + 'upstreams: {api: {url: "http://127.0.0.1:9/mcp?appid=zqxk"}}\n'
    hold(path, addressed)
    async with serving(path) as ask:
        assert "?appid=zqxk" in (await ask("GET"))[1]["text"]
    hold(path, addressed.replace("config_editing: true", "config_editing: false"))
    async with serving(path) as ask:
        _, shown, _ = await ask("GET")
        assert "zqxk" not in str(shown)
        mark = shown["text"].split("?appid=")[1].split('"')[0]
        moved = shown["text"].replace("port: 0", f"port: {mark}")  # a message would quote it
        _, found, _ = await ask("POST", "/check", tag=shown["tag"], text=moved)
        assert "no secret is expected" in found["problems"][0]["message"]
        assert "zqxk" not in str(found)
        _, found, _ = await ask("POST", "/check", tag=shown["tag"], text=shown["text"])
        assert found["problems"] == []


async def test_of_a_broken_file_only_the_problem_is_told(path: Path) -> None:
    async with serving(path) as ask:
        hold(path, f"server: {{metrics: {{token: {ROOT}-new\n")
        status, shown, _ = await ask("GET")
        assert (status, shown["text"], shown["writable"]) == (200, None, False)
        assert shown["problems"][0]["line"] == 2
        assert ROOT not in str(shown)


@pytest.mark.redis
async def test_replicas_with_equal_files_agree_on_the_version(
    path: Path, redis: RedisServer
) -> None:
    """A balancer sends the edit to another replica than the one that showed the file."""
    hold(path, FILE + f"storage: {{redis: '{redis.url}'}}\n")
    other = path.with_name("other.yaml")
    hold(other, held(path))
    async with serving(path) as one, serving(path) as same, serving(other) as two:
        _, shown, _ = await one("GET")
        tag = shown["tag"]
        for ask in (same, two):
            assert (await ask("GET"))[1]["tag"] == tag
        wanted = shown["text"] + "# more\n"
        assert (await two("POST", "/check", tag=tag, text=wanted))[0] == 200
        status, saved, _ = await same("PUT", tag=tag, text=wanted)
        assert status == 200
        assert (await one("GET"))[1]["tag"] == saved["tag"] != tag
        assert (await one("PUT", tag=tag, text=wanted))[0] == 412
        redis.kill()  # the key is known to each
        assert (await two("GET"))[1]["tag"] == tag


async def test_without_a_store_the_configured_key_is_what_replicas_share(path: Path) -> None:
    hold(
        path,
        FILE.replace("security:", "security:\n  encryption_key: [a-key-that-all-replicas-have]"),
    )
    async with serving(path) as one, serving(path) as other:
        _, shown, _ = await one("GET")
        assert (await other("POST", "/check", tag=shown["tag"], text=shown["text"]))[0] == 200
