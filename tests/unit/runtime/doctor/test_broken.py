"""Broken set-ups: the doctor names the cause of each, and what to do."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import sys
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.config import load_file
from armory.runtime.doctor.bundle import write_bundle
from armory.runtime.doctor.examination import examined
from armory.runtime.doctor.findings import Finding, failed
from armory.runtime.doctor.machine import clock
from armory.testing.servers import free_port
from armory.testing.upstreams.http import HttpUpstream

pytestmark = pytest.mark.anyio
Config = dict[str, Any]
NO_RAG: Config = {"tool_rag": {"enabled": False}}
REFUSES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"error": {"code": -32603, "message": "the key is invalid"}}
    if message["method"] == "initialize":
        server = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
        answer = {"result": {"protocolVersion": "2025-06-18", **server}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


async def found(folder: Path, config: Config, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.setenv("ARMORY_HOME", str(folder / "home"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = folder / "armory.yaml"
    path.write_text(yaml.safe_dump({"server": {"port": free_port()}, **config}))
    return await examined(path, upstream_s=20.0)


def upstream(**block: Any) -> Config:
    return {**NO_RAG, "upstreams": {"it": block}}


def described(folder: Path, text: str) -> Config:
    (folder / "api.yaml").write_text(text)
    return upstream(openapi="api.yaml")


def garbled(folder: Path) -> Path:
    (folder / "garbled.db").write_text("this is not a database" * 100)
    return folder / "garbled.db"


def of_a_newer_armory(folder: Path) -> Path:
    with contextlib.closing(sqlite3.connect(folder / "newer.db")) as made, made:
        made.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        made.execute("INSERT INTO alembic_version VALUES ('9999')")
    return folder / "newer.db"


def command(code: str) -> Config:
    return upstream(command=sys.executable, args=["-c", code])


def taken_port(folder: Path) -> Config:
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    probe.listen()
    OPEN.append(probe)
    return {**NO_RAG, "server": {"port": probe.getsockname()[1]}}


def home_is_a_file(folder: Path) -> Config:
    (folder / "home").write_text("")
    return NO_RAG


def audit_below_a_file(folder: Path) -> Config:
    (folder / "file").write_text("")
    return {**NO_RAG, "observability": {"audit": {"to": str(folder / "file" / "audit.jsonl")}}}


def database_below_a_file(folder: Path) -> Config:
    (folder / "file").write_text("")
    return {**NO_RAG, "storage": {"url": f"sqlite:///{folder}/file/armory.db"}}


def script(mode: int) -> Callable[[Path], Config]:
    """A stdio server beside the file of the configuration."""

    def made(folder: Path) -> Config:
        (folder / "run.sh").write_text(f"#!/bin/sh\nexec {sys.executable} -m armory.demo\n")
        (folder / "run.sh").chmod(mode)
        return upstream(command="./run.sh", env={"PYTHONPATH": str(Path(__file__).parents[4])})

    return made


OPEN: list[socket.socket] = []
SETUPS: dict[str, tuple[Callable[[Path], Config], str, str, str]] = {
    # what is broken: (set-up, check, cause, fix)
    "an unknown key": (
        lambda _: {"servr": {}},
        "configuration",
        "servr",
        "docs/configuration.md",
    ),
    "a missing variable": (
        lambda _: upstream(url="http://127.0.0.1:1/mcp", headers={"X": "${NOT_THERE}"}),
        "configuration",
        "NOT_THERE",
        "correct it in",
    ),
    "a taken port": (taken_port, "port", "is taken by another program", "server.port"),
    "a home that is a file": (home_is_a_file, "folder ARMORY_HOME", "is a file", "move it away"),
    "an audit nowhere": (
        audit_below_a_file,
        "folder observability.audit.to",
        "is a file",
        "another folder",
    ),
    "no such command": (
        lambda _: upstream(command="no-such-program-here"),
        "upstream it",
        "'no-such-program-here' was not found",
        "upstreams.it.command",
    ),
    "a script that may not be run": (
        script(0o644),
        "upstream it",
        "run.sh' is not executable",
        "chmod +x",
    ),
    "a server that dies": (
        lambda _: command("import sys; sys.exit('DATABASE_URL is not set')"),
        "upstream it",
        "DATABASE_URL is not set",
        "by hand",
    ),
    "a server that ends without a word": (
        lambda _: command("pass"),
        "upstream it",
        "exited with status 0",
        "are all its arguments there",
    ),
    "a server that refuses to list": (
        lambda _: command(REFUSES),
        "upstream it",
        "refused tools/list: -32603 the key is invalid",
        "a key of its own",
    ),
    "nobody listens": (
        lambda _: upstream(url=f"http://127.0.0.1:{free_port()}/mcp"),
        "upstream it",
        "cannot be reached",
        "upstreams.it.url",
    ),
    "a name that is none": (
        lambda _: upstream(url="http://no-such-host.invalid/mcp"),
        "upstream it",
        "cannot be resolved",
        "DNS",
    ),
    "a missing authority": (
        lambda _: upstream(url="https://127.0.0.1:1/mcp", tls={"ca_file": "nothing.pem"}),
        "upstream it",
        "nothing.pem is not there",
        "tls.ca_file",
    ),
    "no Redis": (
        lambda _: {**NO_RAG, "storage": {"redis": f"redis://127.0.0.1:{free_port()}/0"}},
        "redis",
        "Redis",
        "storage.redis",
    ),
    "no Postgres": (
        lambda _: {**NO_RAG, "storage": {"url": f"postgresql://u:p@127.0.0.1:{free_port()}/a"}},
        "database",
        "failed",
        "storage.url",
    ),
    "a database that cannot be made": (
        database_below_a_file,
        "database",
        "file is a file",
        "storage.url",
    ),
    "a database that is none": (
        lambda folder: {**NO_RAG, "storage": {"url": f"sqlite:///{garbled(folder)}"}},
        "database",
        "file is not a database",
        "a saved copy",
    ),
    "a database of a newer Armory": (
        lambda folder: {**NO_RAG, "storage": {"url": f"sqlite:///{of_a_newer_armory(folder)}"}},
        "database",
        "schema 9999",
        "the Armory that wrote it",
    ),
    "no key of the embedder": (
        lambda _: {"tool_rag": {"embedding_model": "text-embedding-3-small"}},
        "embedder",
        "needs a key",
        "OPENAI_API_KEY",
    ),
    "a proxy that is away": (
        lambda _: upstream(url="https://up.invalid/mcp", proxy=f"http://127.0.0.1:{free_port()}"),
        "upstream it",
        "no connection to the proxy",
        "upstreams.it.proxy",
    ),
    "an API that is down": (
        lambda _: upstream(openapi="gone.yaml", base_url=f"http://127.0.0.1:{free_port()}"),
        "upstream it",
        "cannot be reached",
        "upstreams.it.base_url",
    ),
    "a description without a place": (
        lambda folder: described(folder, "openapi: 3.1.0\npaths: {/x: {get: {}}}"),
        "upstream it",
        "give base_url",
        "upstreams.it.openapi",
    ),
    "a folder of skills that is not there": (
        lambda _: upstream(skills="nowhere"),
        "upstream it",
        "nowhere is not there",
        "upstreams.it.skills",
    ),
}


@pytest.mark.parametrize("name", SETUPS)
async def test_a_broken_set_up_is_explained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, check, cause, fix = SETUPS[name]
    try:
        findings = await found(tmp_path, setup(tmp_path), monkeypatch)
    finally:
        while OPEN:
            OPEN.pop().close()
    broken = [finding for finding in findings if finding.state == "failed"]
    named = [one for one in broken if one.check == check and cause in one.detail]
    assert named, broken
    assert fix in named[0].fix


async def test_a_script_beside_the_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = await found(tmp_path, script(0o755)(tmp_path), monkeypatch)
    (finding,) = [one for one in findings if one.check == "upstream it"]
    assert (finding.state, "12 tools" in finding.detail) == ("ok", True), finding


async def test_a_skill_that_cannot_be_served_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("one", "# One\n"), ("two", "---\nname: two\ndescription: It\n---\n")):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
    findings = await found(tmp_path, upstream(skills="skills"), monkeypatch)
    (finding,) = [one for one in findings if one.check == "upstream it"]
    assert finding.state == "warning"
    assert finding.detail.startswith("1 skill; 1 left out, one: its SKILL.md does not begin")


@pytest.fixture
async def scripted() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream() as server:
        yield server


async def test_a_login_is_named(
    scripted: HttpUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.fail_with = 401
    findings = await found(tmp_path, upstream(url=scripted.url), monkeypatch)
    (finding,) = [one for one in findings if one.check == "upstream it"]
    assert finding.state == "failed"
    assert "armory login it" in finding.fix


async def test_a_set_up_that_works_is_well_and_its_bundle_has_no_secret(
    scripted: HttpUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_TOKEN", "a-secret-of-the-environment")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-honeycomb-team=of-the-collector")
    config = upstream(
        url=scripted.url, headers={"X-Custom": "hidden-in-a-header", "X-Ref": "${ARMORY_TOKEN}"}
    )
    config["security"] = {"tokens": {"ci": {"token": 'a-"tökn"-in-the-file'}}}
    config["storage"] = {"url": f"sqlite:///{tmp_path}/armory.db"}
    findings = await found(tmp_path, config, monkeypatch)
    assert [one for one in findings if one.state == "failed"] == []
    (reached,) = [one for one in findings if one.check == "upstream it"]
    assert "modern, revision 2026-07-28" in reached.detail
    findings.append(failed("upstream it", 'it said a-"tökn"-in-the-file', "ask it"))
    file = tmp_path / "bundle.zip"
    names = write_bundle(file, findings, load_file(tmp_path / "armory.yaml"))
    assert file.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(file) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sorted(texts) == sorted(names)
    for secret in ("a-secret-of-the", "hidden-in-a-header", "-in-the-file", "of-the-collector"):
        assert all(secret not in text for text in texts.values()), secret
    assert "X-Custom" in texts["armory.yaml"]
    assert {"check", "state", "detail", "fix"} == json.loads(texts["findings.json"])[0].keys()


async def test_how_many_upstreams_are_examined_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    missing = {f"s{n}": {"command": f"no-such-command-{n}"} for n in range(6)}
    path = tmp_path / "armory.yaml"
    path.write_text(yaml.safe_dump({**NO_RAG, "upstreams": missing}))
    told: list[tuple[int, int]] = []
    await examined(path, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(7)]


def test_a_clock_of_long_ago_is_wrong() -> None:
    assert clock(0.0).state == "failed"
    assert clock(1_790_000_000.0).state == "ok"
