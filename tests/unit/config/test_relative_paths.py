"""Relative paths count from the folder of the file, wherever a command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.config import load_file
from armory.runtime.blocks.upstreams import upstream_specs


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["../armory.yaml", "{}/armory.yaml"])
def test_what_is_stored_is_where_the_file_says(elsewhere: Path, tmp_path: Path, name: str) -> None:
    text = "storage: {url: 'sqlite:///data/a.db?timeout=3', cache_dir: cache}"
    (tmp_path / "armory.yaml").write_text(text)
    storage = load_file(Path(name.format(tmp_path)), environ={}).config.storage
    assert storage.url == f"sqlite:///{tmp_path}/data/a.db?timeout=3"
    assert storage.cache_dir == str(tmp_path / "cache")


@pytest.mark.parametrize(
    "url", ["sqlite:////abs/a.db", "sqlite+aiosqlite:////abs/a.db", "postgresql://h/d"]
)
def test_what_is_whole_already_stays(elsewhere: Path, tmp_path: Path, url: str) -> None:
    (tmp_path / "armory.yaml").write_text(f"storage: {{url: '{url}', cache_dir: ''}}")
    storage = load_file(tmp_path / "armory.yaml", environ={}).config.storage
    assert (storage.url, storage.cache_dir) == (url, "")


def test_a_relative_home_is_where_the_command_runs(elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "armory.yaml").write_text("{}")
    loaded = load_file(tmp_path / "armory.yaml", environ={"ARMORY_HOME": "home"})
    assert loaded.home.absolute() == elsewhere / "home"
    assert loaded.config.storage.url == f"sqlite:///{elsewhere}/home/armory.db"
    assert loaded.config.storage.cache_dir == str(elsewhere / "home" / "cache")


@pytest.mark.parametrize(
    ("block", "command"),
    [
        ("command: ./run.sh", "{folder}/run.sh"),
        ("command: bin/run", "{folder}/bin/run"),
        ("command: ./run.sh, cwd: bin", "./run.sh"),
        ("command: /bin/run", "/bin/run"),
        ("command: ~/run.sh", "{home}/run.sh"),
        ("command: run.sh", "run.sh"),
    ],
)
def test_a_program_is_where_the_file_says(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str, command: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "armory.yaml").write_text(f"upstreams: {{a: {{{block}}}}}")
    (spec,) = upstream_specs(load_file(Path("../armory.yaml"), environ={}))
    assert spec.command is not None
    wanted = command.format(folder=tmp_path, home=tmp_path / "home")
    assert spec.command.replace("/elsewhere/..", "") == wanted


def test_a_map_of_an_editor_means_the_folder_of_the_file_by_its_workspace(
    elsewhere: Path, tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text(
        "servers:\n"
        '  files: {command: files, args: ["${workspaceFolder}/docs"], envFile: .env}\n'
        "  off: {command: off, envFile: .env, disabled: true}\n"
    )
    loaded = load_file(Path("../armory.yaml"), environ={})
    assert loaded.config.upstreams["files"].args == [f"{tmp_path}/docs"]
    (notice,) = [text for text in loaded.notices if "envFile" in text]
    assert "'files'" in notice
    assert "`armory import`" in notice
