"""Adding to a configuration as people's editors leave it, and what no configuration could hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armory.cli.main import main
from armory.config import load_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARMORY_CONFIG", raising=False)


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


@pytest.mark.parametrize("env", [{}, {"API_TOKEN": "in-clear"}])
def test_a_file_of_windows_is_added_to_and_keeps_its_newlines(env: dict[str, str]) -> None:
    file = Path("armory.yaml")
    file.write_bytes(b"\xef\xbb\xbfupstreams: # mine\r\n  here:\r\n    command: x\r\n")
    assert taken_over({"there": {"command": "y", "env": env}}) == 0
    assert list(load_file(file).config.upstreams) == ["there", "here"]
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
    ],
)
def test_an_entry_that_would_make_the_whole_file_invalid_is_left_out_and_told(
    entry: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert taken_over({"odd": entry, "good": {"command": "x"}}) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(load_file(Path("armory.yaml")).config.upstreams) == ["good"]


def test_a_variable_as_gemini_writes_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    env = {"TOKEN": "$MY_TOKEN", "PRICE": "$5 off", "HERE": "${HOME}"}
    bearer = {"url": "http://x.example", "headers": {"Authorization": "Bearer $MY_TOKEN"}}
    assert taken_over({"odd": {"command": "x", "env": env}, "far": bearer}) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "odd.env.TOKEN: '$MY_TOKEN' is taken as it stands; write ${MY_TOKEN}" in said
    assert "far.headers.Authorization: 'Bearer $MY_TOKEN' is taken as it stands" in said
    assert "PRICE" not in said
    assert "HERE" not in said


def test_a_file_as_opencode_fills_it_in_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    headers = {"Authorization": "Bearer {file:~/.token}"}
    other = {"command": "x", "args": ["${A:-{file:b}}", "{file: c d}", "{file:./e}", "{file:./e}"]}
    assert taken_over({"far": {"url": "http://x.example", "headers": headers}, "near": other}) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "upstreams.far: {file:~/.token} is taken as it stands; write ${NAME} there" in said
    assert said.count("upstreams.near: {file:./e} is taken") == 1


def test_what_the_client_fills_in_is_no_secret_to_move(capsys: pytest.CaptureFixture[str]) -> None:
    headers = {
        "Authorization": "Bearer $MY_TOKEN",
        "X-Api-Key": "{file:./key}",
        "X-Token": "${file:/run/token}",
    }
    args = ["--api-key", "$MY_KEY"]
    servers: dict[str, Any] = {"far": {"url": "http://x.example", "headers": headers}}
    servers["near"] = {"command": "x", "args": args, "env": {"TOKEN": "real-one"}}
    assert taken_over(servers, "--env", ".env") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "far.headers.Authorization: 'Bearer $MY_TOKEN' is taken as it stands" in said
    assert "upstreams.far: {file:./key} is taken as it stands; write ${NAME} there" in said
    assert "upstreams.far: ${file:/run/token} is taken as it stands" in said
    config = load_file(Path("armory.yaml")).config
    assert config.upstreams["far"].headers == headers
    assert config.upstreams["near"].args == args
    assert Path(".env").read_text() == 'TOKEN="real-one"\n'


def test_a_server_runs_where_the_client_ran_it(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"startup": 30_000, "request": 90_000}
    servers = {
        "warp": {"command": "x", "working_directory": "/srv/a"},
        "idea": {"command": "x", "workingDirectory": "/srv/b"},
        "code": {"command": ["x", "y"], "cwd": "/srv/c", "timeout": times},
        "far": {"url": "http://x.example", "working_directory": "/srv/d"},
    }
    assert taken_over(servers) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("left out") == said.count("server 'far': cwd left out") == 1
    found = load_file(Path("armory.yaml")).config.upstreams
    assert [found[name].cwd for name in ("warp", "idea", "code")] == ["/srv/a", "/srv/b", "/srv/c"]
    assert (found["code"].start_timeout_s, found["code"].call_timeout_s) == (30, 90)


IN_PROJECT = {
    "servers": {
        "files": {"command": "files", "args": ["${workspaceFolder}"]},
        "fetch": {"command": "fetch", "envFile": "${workspaceFolder}/fetch.env"},
    }
}


@pytest.mark.parametrize("place", [".vscode", ".cursor", "."])
def test_the_workspace_is_the_folder_that_the_editor_has_open(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    (project / place).mkdir(parents=True)
    (project / "fetch.env").write_text("HOW=politely\n")
    file = project / place / "mcp.json"
    file.write_text(json.dumps(IN_PROJECT))
    with pytest.raises(SystemExit) as ended:
        main(("import", str(file)))
    assert not ended.value.code
    upstreams = load_file(Path("armory.yaml")).config.upstreams
    assert upstreams["files"].args == [str(project)]
    assert upstreams["fetch"].env == {"HOW": "politely"}
    said = " ".join(capsys.readouterr().err.split())
    assert f"${{workspaceFolder}} is taken as {project}" in said


def test_a_secret_that_the_env_file_has_already_is_no_variable_that_is_not_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HUB_TOKEN", raising=False)
    entry = {"command": "x", "env": {"HUB_TOKEN": "in-clear"}}
    Path(".env").write_text("OTHER=1\n")
    assert taken_over({"one": entry}, "--env", ".env") == 0
    assert taken_over({"two": {**entry, "args": ["${OTHER}"]}}, "--env", ".env") == 0
    assert "not set" not in capsys.readouterr().err
    assert Path(".env").read_text().count("HUB_TOKEN=") == 1


def test_a_secret_gets_no_name_under_which_the_environment_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "of the shell")
    assert taken_over({"hub": {"command": "x", "env": {"HUB_TOKEN": "mine"}}}, "--env", ".env") == 0
    assert load_file(Path("armory.yaml")).config.upstreams["hub"].env == {"HUB_TOKEN": "mine"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--env", ".env"), False),
        (("--env", "secrets.env"), True),
        (("--env", ".env", "--into", "conf/armory.yaml"), True),
        (("--env", "conf/.env", "--into", "conf/armory.yaml"), False),
    ],
)
def test_secrets_that_go_where_the_configuration_does_not_look_are_told(
    options: tuple[str, ...], told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("conf").mkdir()
    assert taken_over({"hub": {"command": "x", "env": {"API_TOKEN": "mine"}}}, *options) == 0
    said = capsys.readouterr().err
    assert ("is not read by itself" in said) is told


@pytest.mark.parametrize("options", [(), ("--print",)])
def test_what_is_said_of_secrets_in_clear_can_be_done(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"command": "x", "env": {"API_TOKEN": "in-clear"}}
    assert taken_over({"hub": entry}, *options) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "`armory import theirs.json --env .env`" in said
    if not options:  # what is there is left as it is
        assert "once these servers are out of armory.yaml again" in said
        Path("armory.yaml").unlink()
    assert taken_over({"hub": entry}, "--env", ".env") == 0
    assert "in-clear" not in Path("armory.yaml").read_text()


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"API_TOKEN": "in-clear"}},
        {"serverUrl": "https://example.com/mcp?key=in-clear-0123456789"},
        {"command": ["bun", "x", "one"]},
        {"command": {"path": "${workspaceFolder}/one"}},
    ],
    ids=["command", "windsurf", "opencode", "zed"],
)
def test_a_server_that_was_taken_over_is_left_as_it_is(
    entry: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert taken_over({"My Server": entry}, "--env", ".env") == 0
    assert "My Server is in armory.yaml already" in capsys.readouterr().err
    assert list(load_file(Path("armory.yaml")).config.upstreams) == ["my-server"]
