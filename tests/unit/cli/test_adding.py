"""Adding to a configuration as people's editors leave it, and what no configuration could hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armory.cli.main import main
from armory.config import load_file, load_text

pytestmark = pytest.mark.usefixtures("empty_folder")


def taken_over(servers: dict[str, Any], *options: str) -> int:
    Path("theirs.json").write_text(json.dumps({"mcpServers": servers}))
    with pytest.raises(SystemExit) as ended:
        main(("import", "theirs.json", *options))
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "arguments",
    [("import", "theirs.json"), ("add", "server.json", "--no-input"), ("init",)],
    ids=["import", "add", "init"],
)
def test_what_is_written_is_the_configuration_that_the_variable_names(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"registryType": "pypi", "identifier": "x", "version": "1"}
    package = {**found, "transport": {"type": "stdio"}}
    server = {"name": "io.example/x", "description": "", "version": "1", "packages": [package]}
    Path("server.json").write_text(json.dumps(server))
    Path("theirs.json").write_text('{"mcpServers": {"x": {"command": "y"}}}')
    Path("conf").mkdir()
    named = Path("conf/gateway.yaml")
    monkeypatch.setenv("ARMORY_CONFIG", str(named))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    assert load_file(named).config.upstreams
    assert not Path("armory.yaml").exists()


def test_a_configuration_to_start_from_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("init", "-"))
    assert not ended.value.code
    assert load_text(capsys.readouterr().out).config.upstreams
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (
            "upstreams:\n  here:\n    command: x\n  # more to come\n",
            "\n# rest\nserver:\n  port: 1\n",
        ),
        ("upstreams:\n  here:\n    command: x\n", ""),
        ("upstreams:\n  here:\n    command: |\n      x\n\n      # y\n", "\n"),
        ("upstreams:\n# none yet\n", "server: {port: 1}\n"),
    ],
)
def test_what_is_added_follows_what_is_there(before: str, behind: str) -> None:
    Path("armory.yaml").write_text(before + behind)
    assert taken_over({"there": {"command": "y"}}) == 0
    written = Path("armory.yaml").read_text()
    assert list(load_file(Path("armory.yaml")).config.upstreams)[-1] == "there"
    if "here" in before:
        assert written.startswith(before)
        assert written.endswith(f"  there:\n    command: y\n{behind}")


@pytest.mark.parametrize("env", [{}, {"API_TOKEN": "in-clear"}])
def test_a_file_of_windows_is_added_to_and_keeps_its_newlines(env: dict[str, str]) -> None:
    file = Path("armory.yaml")
    file.write_bytes(b"\xef\xbb\xbfupstreams: # mine\r\n  here:\r\n    command: x\r\n")
    assert taken_over({"there": {"command": "y", "env": env}}) == 0
    assert list(load_file(file).config.upstreams) == ["here", "there"]
    written = file.read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n") > 3
    assert b"upstreams: # mine\r\n" in written


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (b"# caf\xe9\n", "armory.yaml is not UTF-8 text (invalid continuation byte); save it as"),
        ("a: b".encode("utf-16"), "armory.yaml is not UTF-8 text (UTF-16); save it as UTF-8"),
        (b"upstreams:\n\there:\n", "line 2: broken YAML in column 1: a tab"),
        (b"- one\n", "line 1: a mapping of blocks is expected, this is a list"),
        (b"upstreams:\n  a: {command: x}\n  a: {command: y}\n", "this key is here twice"),
    ],
)
def test_a_file_that_cannot_be_added_to_is_told_as_validate_tells_it(
    held: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path("armory.yaml")
    file.write_bytes(held)
    assert taken_over({"there": {"command": "y"}}) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert file.read_bytes() == held


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("npx", "server 'odd' is no mapping of keys and is left out"),
        (
            {"source": "extension", "settings": {"key": "value"}},
            "server 'odd' has neither a command nor a URL and is left out",
        ),
        (
            {"command": "x", "url": "http://x.example"},
            "server 'odd' has 'command' and 'url', of which a server has one, and is left out",
        ),
        (
            {"type": "ws", "url": "wss://x.example/mcp"},
            "server 'odd' is reached by 'ws', which is not spoken here, and is left out",
        ),
        (
            {"url": "ws://x.example/mcp?key=secret"},
            "server 'odd' is reached at 'ws://', which is not spoken here, and is left out",
        ),
    ],
)
def test_an_entry_that_would_make_the_whole_file_invalid_is_left_out_and_told(
    entry: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert taken_over({"odd": entry, "good": {"command": "x"}}) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(load_file(Path("armory.yaml")).config.upstreams) == ["good"]
