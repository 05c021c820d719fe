"""Two skills servers, one of each era, and one that has none, behind one URL."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from armory.protocol.capabilities import SKILLS_EXTENSION
from armory.testing.clients.raw import LegacyClient
from armory.testing.upstreams.exchange import Json, RpcFailure, Wire
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from tests.protocol.gateways import GatewayClient, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
GIT = "skill://git-workflow"
REFUND = "skill://acme/billing/refunds"


def skill_md(name: str, description: str) -> bytes:
    return f"---\nname: {name}\ndescription: {description}\nlicense: MIT\n---\n# é\n".encode()


@dataclass
class SkillScript(Script):
    """A server whose skills are folders of files, by URI."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    unlisted: set[str] = field(default_factory=set[str])
    extra: list[Json] = field(default_factory=list[Json])
    page_size: int | None = 1

    async def _result(self, message: Json, wire: Wire) -> Json:
        method, uri = message["method"], (message.get("params") or {}).get("uri", "")
        if method == "skills/list":
            shown = [u for u in self.files if u.endswith("/SKILL.md") and u not in self.unlisted]
            return self.paged([*map(self.entry, shown), *self.extra], message, wire)
        if method == "skills/get" and uri in self.files:
            return {"skill": self.entry(uri), **hints(wire)}
        if method == "resources/read" and uri in self.files:
            return {"contents": [{"uri": uri, **content(self.files[uri])}], **hints(wire)}
        if method == "resources/directory/read" and f"{uri}/SKILL.md" in self.files:
            found = [u for u in self.files if u.startswith(f"{uri}/")]
            return {"resources": [{"uri": u, "name": u.rsplit("/", 1)[1]} for u in found]}
        if method in ("skills/get", "resources/read", "resources/directory/read"):
            raise RpcFailure(-32602, "nothing is served there")
        return await super()._result(message, wire)

    def paged(self, entries: list[Json], message: Json, wire: Wire) -> Json:
        start = int((message.get("params") or {}).get("cursor") or 0)
        page: Json = {"skills": entries[start : start + 1], **hints(wire)}
        return page | ({"nextCursor": str(start + 1)} if start + 1 < len(entries) else {})

    def entry(self, uri: str) -> Json:
        text = self.files[uri].decode().split("---\n")[1]
        folder = uri.removesuffix("SKILL.md")
        return {
            "uri": uri,
            "frontmatter": yaml.safe_load(text),
            "resources": [
                {"uri": u, "digest": digest(data), "size": len(data)}
                for u, data in self.files.items()
                if u.startswith(folder)
            ],
        }


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def content(data: bytes) -> Json:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"blob": base64.b64encode(data).decode()}


def hints(wire: Wire) -> Json:
    return {"ttlMs": 7_000, "cacheScope": "public"} if wire.era == "modern" else {}


def git_server() -> SkillScript:
    return SkillScript(
        name="git",
        capabilities={
            "tools": {},
            "resources": {},
            "extensions": {SKILLS_EXTENSION: {"directoryRead": True}},
        },
        files={
            f"{GIT}/SKILL.md": skill_md("git-workflow", "Name branches and write commit messages"),
            f"{GIT}/references/RULES.md": "Rules: é\n".encode(),
            f"{GIT}/logo.bin": bytes(range(128, 256)),
            "skill://hidden/SKILL.md": skill_md("hidden", "Is not listed"),
        },
        unlisted={"skill://hidden/SKILL.md"},
        extra=[{"uri": "skill://broken/SKILL.md", "frontmatter": {"name": "broken"}}],
    )


def shop_server() -> SkillScript:
    return SkillScript(
        name="shop",
        capabilities={"tools": {}, "resources": {}, "extensions": {SKILLS_EXTENSION: {}}},
        files={
            f"{REFUND}/SKILL.md": skill_md("refunds", "Process customer refund requests"),
            f"{GIT}/SKILL.md": skill_md("git-workflow", "Another one of the same name"),
        },
    )


@dataclass
class Rig(GatewayClient):
    git: SkillScript


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    git, shop, plain = git_server(), shop_server(), Script(name="plain")
    async with AsyncExitStack() as stack:
        upstreams: dict[str, Any] = {}
        for key, script, era in (
            ("git", git, "modern"),
            ("shop", shop, "legacy"),
            ("up", plain, ""),
        ):
            server = await stack.enter_async_context(HttpUpstream(script, eras=era or "modern"))
            upstreams[key] = {"url": server.url}
        tokens = {who: {"token": f"token-of-{who}", "user": who} for who in ("ann", "bob")}
        policies = [
            {"who": ["ann"], "allow": ["*"], "deny": ["skill://shop/git-workflow*"]},
            {"who": ["bob"], "allow": ["up__*", "shop__*"]},
        ]
        config = {
            "upstreams": upstreams,
            "security": {"tokens": tokens, "policies": policies},
            "tool_rag": {"embedding_model": "embedded"},
            "observability": {"log_level": "error"},
        }
        found = await stack.enter_async_context(running(tmp_path, config))
        yield Rig(found.url, found.http, git)


async def test_two_skills_servers_and_one_without_behind_one_url(rig: Rig) -> None:
    found = await rig.result("server/discover")
    assert found["capabilities"]["extensions"][SKILLS_EXTENSION] == {"directoryRead": True}
    assert "resources" in found["capabilities"]
    listed = await rig.result("skills/list", {})
    assert listed["resultType"] == "complete"
    assert isinstance(listed["ttlMs"], int)
    assert listed["cacheScope"] in ("public", "private")
    uris = [skill["uri"] for skill in listed["skills"]]
    assert uris == [
        "skill://git/git-workflow/SKILL.md",
        "skill://shop/acme/billing/refunds/SKILL.md",
    ]
    for skill in listed["skills"]:
        await verified(rig, skill)
    own = rig.git.entry(f"{GIT}/SKILL.md")
    assert listed["skills"][0]["frontmatter"] == own["frontmatter"]
    assert len(listed["skills"][0]["resources"]) == 3


async def verified(rig: Rig, skill: Any) -> None:
    """What a host does before it loads a skill: every file has the size and digest it is said to
    have, and the frontmatter is the one of its SKILL.md.
    """
    for file in skill["resources"]:
        assert file["uri"].startswith(skill["uri"].removesuffix("SKILL.md"))
        (read,) = (await rig.result("resources/read", {"uri": file["uri"]}))["contents"]
        assert read["uri"] == file["uri"]
        data = base64.b64decode(read["blob"]) if "blob" in read else read["text"].encode()
        assert (len(data), digest(data)) == (file["size"], file["digest"])
        if file["uri"] == skill["uri"]:
            assert yaml.safe_load(data.decode().split("---\n")[1]) == skill["frontmatter"]


async def test_one_entry_listed_or_not_is_as_it_is_by_now(rig: Rig) -> None:
    uri = "skill://git/hidden/SKILL.md"
    got = await rig.result("skills/get", {"uri": uri})
    assert got["resultType"] == "complete"
    assert (got["ttlMs"], got["skill"]["uri"]) == (7_000, uri)
    await verified(rig, got["skill"])
    rig.git.files[f"{GIT}/SKILL.md"] += b"more\n"
    again = await rig.result("skills/get", {"uri": "skill://git/git-workflow/SKILL.md"})
    await verified(rig, again["skill"])
    legacy = await rig.result("skills/get", {"uri": "skill://shop/acme/billing/refunds/SKILL.md"})
    assert {"ttlMs", "cacheScope", "resultType"} <= legacy.keys()
    for bad in ("skill://git/none/SKILL.md", "skill://up/x/SKILL.md", "skill://x/SKILL.md"):
        assert (await rig.ask("skills/get", {"uri": bad}))["error"]["code"] == -32602


async def test_folders_are_read_where_their_server_does(rig: Rig) -> None:
    read = await rig.result("resources/directory/read", {"uri": "skill://git/git-workflow"})
    assert [file["uri"] for file in read["resources"]] == [
        "skill://git/git-workflow/SKILL.md",
        "skill://git/git-workflow/references/RULES.md",
        "skill://git/git-workflow/logo.bin",
    ]
    for uri in ("skill://shop/acme/billing/refunds", "skill://git/none"):
        refused = await rig.ask("resources/directory/read", {"uri": uri})
        assert refused["error"]["code"] == -32602
    alone = await rig.ask("resources/directory/read", {"uri": REFUND}, at="/mcp/shop")
    assert alone["error"]["code"] == -32601


async def test_policies_hide_skills_and_their_files(rig: Rig) -> None:
    """ann may not see one skill of `shop`; bob may see none at all."""
    uri = "skill://shop/git-workflow/SKILL.md"
    for method in ("skills/get", "resources/read"):
        assert (await rig.ask(method, {"uri": uri}))["error"]["code"] == -32602
    assert (await rig.result("skills/list", who="bob"))["skills"] == []
    git = "skill://git/git-workflow/SKILL.md"
    for method in ("skills/get", "resources/read"):
        assert (await rig.ask(method, {"uri": git}, who="bob"))["error"]["code"] == -32602
    found = await search(rig, "write a commit message", who="bob")
    assert "skills" not in found


async def test_search_names_a_skill_where_it_fits(rig: Rig) -> None:
    found = await search(rig, "write commit messages and name branches")
    assert found["skills"][0]["uri"] == "skill://git/git-workflow/SKILL.md"
    assert found["skills"][0]["name"] == "git-workflow"
    assert "advice" not in found
    assert not [tool for tool in found["tools"] if "://" in tool["name"]]
    texts = ["write commit messages and name branches", "echo the text back"]
    whole, one = await search(rig, texts), await search(rig, texts, top_k=1)
    assert (len(one["tools"]), len(one["skills"])) == (1, 1), "none takes the other's place"
    assert one["tools"][0] == whole["tools"][0]
    query = {"query": "write commit messages and name branches"}
    listed = await rig.result("tools/list", query)
    assert not [tool for tool in listed["tools"] if "://" in tool["name"]]
    assert found["visible"] == listed["_meta"]["dev.armory/selection"]["visible"], "tools alone"
    parts = [(await search(rig, texts, servers=[one]))["visible"] for one in ("git", "shop", "up")]
    assert sum(parts) == found["visible"]


async def search(rig: Rig, query: str | list[str], who: str = "ann", **more: Any) -> Any:
    arguments = {"name": "search_tools", "arguments": {"query": query, **more}}
    return (await rig.result("tools/call", arguments, who=who))["structuredContent"]


async def test_each_upstreams_own_endpoint_has_its_own_uris(rig: Rig) -> None:
    listed = await rig.result("skills/list", at="/mcp/shop")
    assert [skill["uri"] for skill in listed["skills"]] == [f"{REFUND}/SKILL.md"]
    got = await rig.result("skills/get", {"uri": f"{REFUND}/SKILL.md"}, at="/mcp/shop")
    assert got["skill"] == listed["skills"][0]
    found = await rig.result("server/discover", at="/mcp/up")
    assert SKILLS_EXTENSION not in str(found["capabilities"])
    assert (await rig.ask("skills/list", at="/mcp/up"))["error"]["code"] == -32601


async def test_a_legacy_client_has_them_too(rig: Rig) -> None:
    client = LegacyClient(f"{rig.url}/mcp", rig.http, "2025-11-25")
    headers = {"Authorization": "Bearer token-of-ann"}
    async with aiohttp.ClientSession(headers=headers) as http:
        client.http = http
        await client.initialize({})
        assert SKILLS_EXTENSION in client.hello["capabilities"]["extensions"]
        listed = (await client.request("skills/list"))["result"]
        assert len(listed["skills"]) == 2
        assert "ttlMs" not in listed
        uri = listed["skills"][0]["uri"]
        got = (await client.request("skills/get", {"uri": uri}))["result"]
        assert got["skill"] == listed["skills"][0]
