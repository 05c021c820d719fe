"""A folder of skills: what is served of it, what is not, and why."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from armory.domain.principal import ANONYMOUS
from armory.domain.skills import skill_problem
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.protocol.rawjson import pack
from armory.protocol.session_events import Lost
from armory.testing.clients.recording import RecordingObserver
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lists.server_lists import fetch_lists
from armory.upstreams.skill_folder import folder as folders
from armory.upstreams.skill_folder import tree
from armory.upstreams.skill_folder.folder import FolderContents, SkillFolder
from armory.upstreams.skill_folder.tree import BadFolder
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio


def skill(at: Path, more: str = "", **files: str) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    (at / "SKILL.md").write_text(f"---\nname: {at.name}\ndescription: Does it\n{more}---\nText\n")
    for name, text in files.items():
        (at / f"{name}.md").write_text(text)
    return at


def why(path: Path) -> dict[str, str]:
    return dict(SkillFolder(str(path)).scan().left_out)


def aged(path: Path) -> None:
    """As if nothing there had been written just now."""
    for file in path.rglob("*"):
        os.utime(file, ns=(1_000, 1_000))


async def linked(path: Path, observer: RecordingObserver | None = None) -> BaseLink:
    connector = Connector(UpstreamSpec("own", skills=str(path)), {})
    return await connector.connect(Owner(ANONYMOUS), {}, observer or RecordingObserver())


async def ask(link: BaseLink, method: str, **params: Any) -> Any:
    reply = await link.request(Call(method, {key: pack(value) for key, value in params.items()}))
    if reply.error is not None:
        return msgspec.json.decode(reply.error)["code"]
    assert reply.result is not None
    return msgspec.json.decode(reply.result)


def test_each_folder_with_a_skill_md_is_one_with_digests(tmp_path: Path) -> None:
    skill(tmp_path / "git-flow", "license: MIT\nmetadata: {on: 2024-01-01}\n", RULES="é")
    skill(tmp_path / "acme" / "billing" / "refunds", form="x")
    skill(tmp_path / "git-flow" / "inner")
    (tmp_path / "git-flow" / ".hidden").write_text("x")
    (tmp_path / "README.md").write_text("no skill")
    found = SkillFolder(str(tmp_path)).scan()
    assert found.left_out == []
    assert list(found.skills) == [
        "skill://acme/billing/refunds/SKILL.md",
        "skill://git-flow/SKILL.md",
        "skill://git-flow/inner/SKILL.md",
    ]
    entry = found.skills["skill://git-flow/SKILL.md"]
    assert skill_problem(entry) is None
    assert entry["frontmatter"] == {
        "name": "git-flow",
        "description": "Does it",
        "license": "MIT",
        "metadata": {"on": "2024-01-01"},
    }
    by_uri = {file["uri"]: file for file in entry["resources"]}
    assert len(by_uri) == 3
    assert "skill://git-flow/inner/SKILL.md" in by_uri
    rules = by_uri["skill://git-flow/RULES.md"]
    assert rules["size"] == 2
    assert rules["digest"] == f"sha256:{hashlib.sha256('é'.encode()).hexdigest()}"


def test_a_folder_that_is_a_skill_itself_is_one(tmp_path: Path) -> None:
    skill(tmp_path / "solo", notes="x")
    found = SkillFolder(str(tmp_path / "solo")).scan()
    assert list(found.skills) == ["skill://solo/SKILL.md"]
    assert sorted(found.files) == ["skill://solo/SKILL.md", "skill://solo/notes.md"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Title\n", "does not begin with frontmatter"),
        ("---\nname: it\n", "no line --- ends its frontmatter"),
        ("---\n" + "x" * 70_000 + "\n---\n", "no line --- ends its frontmatter within 64 KiB"),
        ("---\nname: [\n---\n", "cannot be read"),
        ('---\nname: it\ndescription: "\\ud800"\n---\n', "cannot be read"),
        ("---\n- it\n---\n", "its frontmatter is no object"),
        ("---\nname: it\n---\n", "its frontmatter has no description"),
        ("---\nname: other\ndescription: x\n---\n", "its folder is not called 'other'"),
        (f"---\nname: it\ndescription: {'x' * 1_025}\n---\n", "more than 1,024 characters"),
    ],
)
def test_bad_frontmatter_costs_that_skill_alone(tmp_path: Path, text: str, said: str) -> None:
    skill(tmp_path / "well")
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "SKILL.md").write_text(text)
    found = SkillFolder(str(tmp_path)).scan()
    assert list(found.skills) == ["skill://well/SKILL.md"]
    assert "skill://it/SKILL.md" not in found.files
    ((name, reason),) = found.left_out
    assert name == "it"
    assert said in reason


def test_what_else_costs_a_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_BYTES", 1_000)
    monkeypatch.setattr("armory.domain.skills.MAX_BYTES", 1_000)
    monkeypatch.setattr("armory.domain.skills.MAX_FILES", 3)
    monkeypatch.setattr(tree, "MAX_LEVELS", 4)
    skill(tmp_path / "well")
    (tmp_path / "none" / "below").mkdir(parents=True)
    skill(tmp_path / "Upper")
    skill(tmp_path / "with space")
    skill(tmp_path / "large", data="x" * 1_001)
    skill(tmp_path / "many", a="", b="", c="")
    (skill(tmp_path / "deep") / "1" / "2" / "3" / "4").mkdir(parents=True)
    assert why(tmp_path) == {
        "none": "has no SKILL.md",
        "Upper": "its name is not of a-z, 0-9 and single hyphens, 64 characters at most",
        "with space": "its name is not of a-z, 0-9 and single hyphens, 64 characters at most",
        "large": f"it has {1_001 + len((tmp_path / 'large' / 'SKILL.md').read_text()):,} bytes; "
        "hosts take 1,000",
        "many": "it has 4 files; hosts take 3",
        "deep": "deep/1/2/3/4 lies deeper than 4 levels",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="file systems elsewhere take no such name")
def test_a_name_that_is_no_utf8_costs_its_skill(tmp_path: Path) -> None:
    (skill(tmp_path / "bytes") / os.fsdecode(b"\xff.md")).write_text("")
    assert why(tmp_path) == {"bytes": "bytes/?.md has a name that is no UTF-8"}


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    outside = skill(tmp_path / "outside")
    (outside / "secret.md").write_text("secret")
    one = skill(root / "one")
    (one / "secret.md").symlink_to(outside / "secret.md")
    two = skill(root / "two")
    (two / "up").symlink_to("..")
    (root / "three").symlink_to(outside)
    four = skill(root / "four", text="here")
    (four / "again.md").symlink_to("text.md")
    (four / "gone.md").symlink_to(tmp_path / "root-beside")
    skill(root / "five", text="here")
    (root / "five" / "again.md").symlink_to("text.md")
    found = SkillFolder(str(root)).scan()
    assert list(found.skills) == ["skill://five/SKILL.md"]
    assert dict(found.left_out) == {
        "one": "one/secret.md is a link that leads out of the folder",
        "two": "two/up is a link to a folder that it lies in",
        "three": "is a link that leads out of the folder",
        "four": "four/gone.md is a link that leads out of the folder",
    }
    assert found.files["skill://five/again.md"] == str((root / "five" / "text.md").resolve())


async def test_nothing_outside_is_read_whatever_the_uri(tmp_path: Path) -> None:
    root = tmp_path / "root"
    skill(root / "one", text="here")
    (tmp_path / "secret.md").write_text("secret")
    (root / "plain.md").write_text("in no skill")
    link = await linked(root)
    for uri in (
        "skill://one/../../secret.md",
        "skill://one/%2e%2e/%2e%2e/secret.md",
        "skill://one/%2E%2E%2F%2E%2E%2Fsecret.md",
        "skill://one/./text.md",
        "skill://one/%74ext.md",
        "skill://one//text.md",
        "skill:///one/text.md",
        "skill://plain.md",
        "skill://one",
        f"file://{tmp_path}/secret.md",
        "",
    ):
        assert await ask(link, "resources/read", uri=uri) == -32602
    read = await ask(link, "resources/read", uri="skill://one/text.md")
    assert read["contents"][0]["text"] == "here"


async def test_a_file_that_becomes_a_link_later_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    one = skill(root / "one", text="here")
    (tmp_path / "secret.md").write_text("secret")
    link = await linked(root)
    (one / "text.md").unlink()
    (one / "text.md").symlink_to(tmp_path / "secret.md")
    assert await ask(link, "resources/read", uri="skill://one/text.md") == -32602


async def test_methods_answer_as_a_server_of_skills(tmp_path: Path) -> None:
    one = skill(tmp_path / "one", text="here")
    (one / "sub").mkdir()
    (one / "sub" / "logo.png").write_bytes(b"\xff\x00")
    link = await linked(tmp_path)
    uri = "skill://one/SKILL.md"
    listed = await ask(link, "skills/list")
    got = await ask(link, "skills/get", uri=uri)
    assert got["skill"] == listed["skills"][0]
    (content,) = (await ask(link, "resources/read", uri="skill://one/sub/logo.png"))["contents"]
    assert (content["mimeType"], content["blob"]) == ("image/png", "/wA=")
    children = (await ask(link, "resources/directory/read", uri="skill://one"))["resources"]
    assert [(child["name"], child["mimeType"]) for child in children] == [
        ("SKILL.md", "text/markdown"),
        ("text.md", "text/markdown"),
        ("sub", "inode/directory"),
    ]
    assert await ask(link, "resources/directory/read", uri=uri) == -32602
    assert await ask(link, "skills/get", uri="skill://one/text.md") == -32602
    assert await ask(link, "tools/call", name="x") == -32601
    lists = await fetch_lists(link)
    assert [len(lists.skills), len(lists.resources), len(lists.tools)] == [1, 1, 0]


async def test_a_change_is_seen_at_the_next_look_and_little_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = skill(tmp_path / "one", text="here")
    broken = tmp_path / "two" / "SKILL.md"
    broken.parent.mkdir()
    broken.write_text("none")
    folder = SkillFolder(str(tmp_path))
    link = await linked(tmp_path)
    before = await fetch_lists(link)
    assert [(d.list, d.entry) for d in before.dropped] == [("skills/list", "two")]
    skill(tmp_path / "two")
    (one / "text.md").write_text("new!")
    after = await fetch_lists(link)
    assert after.dropped == ()
    assert len(after.skills) == 2
    digest = f"sha256:{hashlib.sha256(b'new!').hexdigest()}"
    assert digest in str(after.skills[0])

    monkeypatch.setattr(folders, "_FRESH_NS", 0)
    aged(tmp_path)
    first = folder.scan()
    opened: list[str] = []
    real = os.open

    def noted(path: str, flags: int) -> int:
        opened.append(path)
        return real(path, flags)

    monkeypatch.setattr(os, "open", noted)
    assert folder.scan().skills == first.skills
    assert opened == []
    (one / "text.md").write_text("other")
    assert folder.scan().skills != first.skills
    assert opened == [str(one / "text.md")]


async def test_a_folder_that_is_not_there_or_goes(tmp_path: Path) -> None:
    with pytest.raises(UpstreamUnavailable, match="cannot be served: it is not there"):
        await linked(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFolder, match="it is no folder"):
        SkillFolder(str(tmp_path / "file")).scan()
    observer = RecordingObserver()
    root = tmp_path / "root"
    skill(root / "one")
    link = await linked(root, observer)
    root.rename(tmp_path / "moved")
    with pytest.raises(UpstreamUnavailable, match="it is not there"):
        await link.request(Call("skills/list", {}))
    assert link.closed
    assert [type(event) for event in observer.events] == [Lost]


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 5)
    skill(tmp_path / "one", a="", b="", c="", d="")
    with pytest.raises(BadFolder, match="more than 5 files"):
        SkillFolder(str(tmp_path)).scan()


async def test_who_ask_at_once_share_a_look(tmp_path: Path) -> None:
    skill(tmp_path / "one")
    folder = SkillFolder(str(tmp_path))
    everybody = threading.Barrier(2, timeout=30)
    asking, scans = 0, 0
    real = folder.scan

    def counted() -> Any:
        nonlocal scans
        scans += 1
        if scans == 1:  # until all have asked
            everybody.wait()
        return real()

    async def asked() -> FolderContents:
        nonlocal asking
        asking += 1
        if asking == 20:
            asyncio.get_running_loop().call_soon(everybody.wait)
        return await folder.contents()

    folder.scan = counted
    found = await asyncio.gather(*(asked() for _ in range(20)))
    assert all(list(each.skills) == ["skill://one/SKILL.md"] for each in found)
    assert scans == 2  # that of the first, and one for those who asked while it was under way
