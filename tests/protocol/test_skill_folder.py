"""A folder of skills, a server of skills and a server without any, behind one URL."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.protocol.capabilities import SKILLS_EXTENSION
from armory.runtime.running import Runtime
from armory.testing.clients.raw import LegacyClient
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from tests.protocol.gateways import running
from tests.protocol.test_skills import Rig, git_server, search, skill_md, verified

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
REFUNDS = "skill://own/acme/refunds/SKILL.md"
LABELS = "skill://own/labels/SKILL.md"


@dataclass
class FolderRig(Rig):
    folder: Path
    runtime: Runtime


def write(folder: Path) -> None:
    for path, name, description in (
        ("acme/refunds", "refunds", "Process customer refund requests step by step"),
        ("labels", "labels", "Sort the labels of a mailbox"),
    ):
        (folder / path / "references").mkdir(parents=True)
        (folder / path / "SKILL.md").write_bytes(skill_md(name, description))
        (folder / path / "references" / "LIMITS.md").write_text("é: 100\n", encoding="utf-8")
        (folder / path / "logo.png").write_bytes(bytes(range(128, 256)))
    (folder / "broken").mkdir()
    (folder / "broken" / "SKILL.md").write_text("no frontmatter")


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FolderRig]:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    git, plain, folder = git_server(), Script(name="plain"), tmp_path / "skills"
    write(folder)
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(HttpUpstream(git, eras="legacy"))
        other = await stack.enter_async_context(HttpUpstream(plain, eras="modern"))
        tokens = {who: {"token": f"token-of-{who}", "user": who} for who in ("ann", "bob")}
        policies = [
            {"who": ["ann"], "allow": ["*"], "deny": ["skill://own/labels/*"]},
            {"who": ["bob"], "allow": ["up__*", "skill://git/*"]},
        ]
        config = {
            "upstreams": {
                "git": {"url": served.url},
                "own": {"skills": "skills"},
                "up": {"url": other.url},
            },
            "security": {"tokens": tokens, "policies": policies},
            "tool_rag": {"embedding_model": "embedded"},
            "observability": {"log_level": "error"},
        }
        found = await stack.enter_async_context(running(tmp_path, config))
        yield FolderRig(found.url, found.http, git, folder, found.runtime)


async def uris(rig: Rig, **more: Any) -> list[str]:
    listed = await rig.result("skills/list", **more)
    return [skill["uri"] for skill in listed["skills"]]


async def test_a_folder_is_served_beside_a_server_of_skills_and_one_without(
    rig: FolderRig,
) -> None:
    found = await rig.result("server/discover")
    assert found["capabilities"]["extensions"][SKILLS_EXTENSION] == {"directoryRead": True}
    listed = await rig.result("skills/list")
    assert [skill["uri"] for skill in listed["skills"]] == [
        "skill://git/git-workflow/SKILL.md",
        REFUNDS,
    ]
    entry = listed["skills"][1]
    assert entry["frontmatter"]["license"] == "MIT"
    assert len(entry["resources"]) == 3
    await verified(rig, entry)
    got = await rig.result("skills/get", {"uri": REFUNDS})
    assert got["skill"] == entry
    children = await rig.result("resources/directory/read", {"uri": "skill://own/acme/refunds"})
    assert [(child["uri"], child["mimeType"]) for child in children["resources"]] == [
        (REFUNDS, "text/markdown"),
        ("skill://own/acme/refunds/logo.png", "image/png"),
        ("skill://own/acme/refunds/references", "inode/directory"),
    ]
    assert (await rig.ask("skills/list", at="/mcp/up"))["error"]["code"] == -32601
    assert await uris(rig, at="/mcp/own") == ["skill://acme/refunds/SKILL.md"]


async def test_policies_hold_for_a_folder(rig: FolderRig) -> None:
    """ann may not see one skill of it; bob may see none."""
    files = "skill://own/labels/references/LIMITS.md"
    for who, uri in (("ann", LABELS), ("ann", files), ("bob", LABELS), ("bob", REFUNDS)):
        for method in ("skills/get", "resources/read"):
            assert (await rig.ask(method, {"uri": uri}, who=who))["error"]["code"] == -32602
    for way_round in ("skill://own/%6Cabels/SKILL.md", "skill://own/acme/../labels/SKILL.md"):
        answer = await rig.ask("resources/read", {"uri": way_round})
        assert answer["error"]["code"] == -32602
    assert await uris(rig, who="bob") == ["skill://git/git-workflow/SKILL.md"]
    at_its_own = await uris(rig, who="bob", at="/mcp/git")  # where bob sees nothing but skills
    assert at_its_own == ["skill://git-workflow/SKILL.md"]
    assert "skills" not in await search(rig, "process a refund request", who="bob")


async def test_search_names_a_skill_of_a_folder(rig: FolderRig) -> None:
    found = await search(rig, "process customer refund requests")
    assert (found["skills"][0]["uri"], found["skills"][0]["name"]) == (REFUNDS, "refunds")


async def test_clients_of_the_older_era_have_a_folder_too(rig: FolderRig) -> None:
    client = LegacyClient(f"{rig.url}/mcp", rig.http, "2025-11-25")
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer token-of-ann"}) as http:
        client.http = http
        await client.initialize({})
        assert SKILLS_EXTENSION in client.hello["capabilities"]["extensions"]
        listed = (await client.request("skills/list"))["result"]
        assert [skill["uri"] for skill in listed["skills"]][1] == REFUNDS
        got = (await client.request("skills/get", {"uri": REFUNDS}))["result"]
        assert got["skill"] == listed["skills"][1]
        for file in got["skill"]["resources"]:
            read = (await client.request("resources/read", {"uri": file["uri"]}))["result"]
            assert read["contents"][0]["uri"] == file["uri"]
            assert "resultType" not in read


async def test_a_folder_that_changes_is_taken_over(rig: FolderRig) -> None:
    limits = rig.folder / "acme" / "refunds" / "references" / "LIMITS.md"
    limits.write_text("200\n")
    entry = (await rig.result("skills/get", {"uri": REFUNDS}))["skill"]
    assert hashlib.sha256(limits.read_bytes()).hexdigest() in str(entry)
    await verified(rig, entry)
    (rig.folder / "broken" / "SKILL.md").write_bytes(skill_md("broken", "Mended by now"))
    supervisor = rig.runtime.supervisor
    assert [d.entry for d in supervisor.status()["own"].dropped] == ["broken"]
    await rig.runtime.relist("own")
    assert await uris(rig, at="/mcp/own") == [
        "skill://acme/refunds/SKILL.md",
        "skill://broken/SKILL.md",
    ]
    assert supervisor.status()["own"].dropped_count == 0
