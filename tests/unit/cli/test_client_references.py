"""References that other clients fill in: those that become Armory's, those that are told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armory.cli.main import main
from armory.config import load_file

pytestmark = pytest.mark.usefixtures("empty_folder")


def taken_over(servers: dict[str, Any], *options: str, file: str = "theirs.json") -> int:
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(json.dumps({"mcpServers": servers}))
    with pytest.raises(SystemExit) as ended:
        main(("import", file, *options))
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "file", [".gemini/settings.json", ".qwen/settings.json", "gemini-extension.json"]
)
def test_variables_of_gemini_become_references(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    monkeypatch.setenv("MY_KEY", "k")
    Path(".env").write_text("HOST=far.example\n")
    near = {
        "command": "x",
        "args": ["--key=$MY_KEY", "$MY_KEY$HOST", "img:$UNSET", "a$$MY_KEY", "$5"],
        "env": {"TOKEN": "$UNSET", "PASSWORD": "pa$word", "PLAIN": "${MY_KEY}"},
    }
    far = {"httpUrl": "https://$HOST/mcp", "headers": {"Authorization": "Bearer $UNSET"}}
    assert taken_over({"near": near, "far": far}, "--into", "armory.yaml", file=file) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "upstreams.near.env.TOKEN: the variable UNSET is not set" in said
    assert "taken as it stands" not in said
    monkeypatch.setenv("UNSET", "later")
    upstreams = load_file(Path("armory.yaml")).config.upstreams
    assert upstreams["near"].args == ["--key=k", "kfar.example", "img:$UNSET", "a$$MY_KEY", "$5"]
    assert upstreams["near"].env == {"TOKEN": "later", "PASSWORD": "pa$word", "PLAIN": "k"}
    assert upstreams["far"].url == "https://far.example/mcp"
    assert upstreams["far"].headers == {"Authorization": "Bearer later"}


def test_geminis_own_folder_is_known_from_within(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".gemini").mkdir()
    monkeypatch.chdir(".gemini")
    assert taken_over({"a": {"command": "x", "env": {"T": "$HOME"}}}, file="settings.json") == 0
    assert "T: ${HOME}" in Path("armory.yaml").read_text()


def test_what_librechat_fills_in_for_each_user_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    headers = {"X-Token": "{{MY_TOKEN}}", "Authorization": "Bearer {{LIBRECHAT_USER_ID}}"}
    assert taken_over({"far": {"url": "http://x.example", "headers": headers}}, "--env", "e") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "upstreams.far: {{MY_TOKEN}}, which that client fills in for each of its users" in said
    assert "upstreams.far: {{LIBRECHAT_USER_ID}}, which that client" in said
    assert load_file(Path("armory.yaml")).config.upstreams["far"].headers == headers
    assert not Path("e").exists()


def test_a_variable_as_shells_write_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_file_that_powershell_wrote_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("theirs.json").write_text("{}", encoding="utf-16")
    with pytest.raises(SystemExit):
        main(("import", "theirs.json"))
    assert "theirs.json is not UTF-8 text (UTF-16); save it as UTF-8" in capsys.readouterr().err
