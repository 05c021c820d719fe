"""`armory import` leaves out what is switched off in the client, wherever it keeps that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.cli.main import main

SERVERS = {name: {"command": name} for name in ("one", "Two", "three")}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("ARMORY_CONFIG", raising=False)
    return place


def put(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def taken(file: Path) -> set[str]:
    with pytest.raises(SystemExit) as ended:
        main(("import", str(file), "--into", "armory.yaml"))
    assert not ended.value.code
    written = Path("armory.yaml")
    return set(yaml.safe_load(written.read_text())["upstreams"]) if written.exists() else set()


@pytest.mark.parametrize(
    "settings",
    [
        {"mcp": {"excluded": ["TWO "]}},
        {"mcp": {"allowed": ["one", "three"]}},
        {"mcp": {"allowed": ["one", "two", "three"], "excluded": ["two"]}},
        {"excludeMCPServers": ["Two"]},
        {"allowMCPServers": ["one", "three"]},
        {"disabledMcpServers": ["Two"]},
    ],
)
def test_settings_beside_the_map(settings: dict[str, Any]) -> None:
    assert taken(put(Path("settings.json"), {"mcpServers": SERVERS, **settings})) == {
        "one", "three",
    }  # fmt: skip


@pytest.mark.parametrize(
    "settings", [{"mcp": {"allowed": []}}, {"mcp": 5}, {"mcp": {"excluded": 5}}]
)
def test_settings_that_say_nothing(settings: dict[str, Any]) -> None:
    file = put(Path("settings.json"), {"mcpServers": SERVERS, **settings})
    assert taken(file) == {"one", "two", "three"}


def test_what_is_left_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    taken(put(Path("s.json"), {"mcpServers": SERVERS, "mcp": {"excluded": ["one"]}}))
    assert "server 'one' is disabled there and left out" in capsys.readouterr().err


def test_gemini_cli_keeps_a_file_of_its_own(home: Path) -> None:
    put(home / ".gemini" / "mcp-server-enablement.json", {"two": {"enabled": False}, "one": {}})
    for folder in (home, Path("project")):
        file = put(folder / ".gemini" / "settings.json", {"mcpServers": SERVERS})
        assert taken(file) == {"one", "three"}


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize("mine", [False, True])
def test_claude_code_has_settings_for_the_file_of_a_project(
    home: Path, name: str, *, mine: bool
) -> None:
    if mine:
        put(home / ".claude" / "settings.json", {"disabledMcpjsonServers": ["Two"]})
    else:
        put(Path(".claude") / name, '{"disabledMcpjsonServers": ["Two"]} // mine')
    assert taken(put(Path(".mcp.json"), {"mcpServers": SERVERS})) == {"one", "three"}


def test_claude_code_has_switches_for_each_project(home: Path) -> None:
    lists = {"disabledMcpServers": ["one"], "disabledMcpjsonServers": ["Two"]}
    put(home / ".claude.json", {"projects": {str(Path.cwd()): lists, "/other": {}}})
    assert taken(put(Path(".mcp.json"), {"mcpServers": SERVERS})) == {"three"}


def test_a_broken_file_beside_it_switches_nothing_off(home: Path) -> None:
    put(home / ".claude.json", "{broken")
    put(Path(".claude") / "settings.json", "[]")
    assert taken(put(Path(".mcp.json"), {"mcpServers": SERVERS})) == {"one", "two", "three"}


def test_the_servers_of_claude_codes_projects(home: Path) -> None:
    here = {"mcpServers": {"mine": {"command": "a"}}, "disabledMcpServers": ["mine", "one", "Two"]}
    there = {"mcpServers": {"mine": {"command": "a"}}, "disabledMcpServers": ["Two"]}
    content = {"mcpServers": SERVERS, "projects": {"/here": here, "/there": there}}
    found = taken(put(home / ".claude.json", content))
    assert found == {"one", "three", "mine"}, "only what is off in every project is left out"


def test_settings_without_servers_are_no_servers(capsys: pytest.CaptureFixture[str]) -> None:
    file = put(Path("settings.json"), {"mcp": {"excluded": ["one"]}})
    with pytest.raises(SystemExit) as ended:
        main(("import", str(file)))
    assert ended.value.code == 2
    assert "has no servers" in capsys.readouterr().err
