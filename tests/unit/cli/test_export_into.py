"""`armory export`: what it does to a client's own file, and the URL that it writes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from armory.cli.main import main

URL = "https://tools.example/mcp"


pytestmark = pytest.mark.usefixtures("empty_folder")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(("export", *arguments))
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("client", "text", "said"),
    [
        ("codex", '[mcp_servers."armory"]\nurl = "http://mine"\n', "another server 'armory'"),
        ("codex", '[mcp_servers]\narmory = {url = "http://mine"}\n', "another server 'armory'"),
        ("codex", 'mcp_servers = {o = {url = "http://o"}}\n', "nothing can be added"),
        ("codex", "mcp_servers = 1\n", "is no table"),
        ("codex", "[mcp_servers\n", "is no TOML"),
        ("cursor", '{"mcpServers": {"armory": {"command": "mine"}}}', "another server 'armory'"),
        ("cursor", '{"mcpServers": []}', "mcpServers is not an object"),
        ("cursor", "[]", "no JSON object"),
        ("vscode", '{"inputs": {"mine": 1}}', "inputs is not a list"),
    ],
)
def test_a_file_that_cannot_be_added_to_stays_as_it_is(
    client: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("theirs").write_text(text)
    assert run("--client", client, "--url", URL, "--token", "--into", "theirs") == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert Path("theirs").read_text() == text


@pytest.mark.parametrize("client", ["codex", "vscode"])
def test_a_client_that_has_the_gateway_already_is_left_alone(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--client", client, "--url", URL, "--token", "--into", "theirs")
    assert run(*given) == 0
    written = Path("theirs").read_text()
    assert run(*given) == 0
    assert "has it already" in capsys.readouterr().out
    assert Path("theirs").read_text() == written


def test_the_client_decides_in_which_language_its_file_is() -> None:
    Path("q.conf").write_text('# mine\nmodel = "x"\n[mcp_servers.o]\nurl = "http://o"')
    assert run("--client", "codex", "--url", URL, "--into", "q.conf") == 0
    text = Path("q.conf").read_text()
    assert text.startswith("# mine\n")
    assert tomllib.loads(text)["mcp_servers"] == {"o": {"url": "http://o"}, "armory": {"url": URL}}


def test_the_clients_folder_is_made_and_none_around_it(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--client", "cursor", "--url", URL, "--into")
    assert run(*given, ".cursor/mcp.json") == 0
    assert json.loads(Path(".cursor/mcp.json").read_text())["mcpServers"]["armory"]["url"] == URL
    capsys.readouterr()
    assert run(*given, "mistyped/.cursor/mcp.json") == 2
    assert "cannot be written: No such file" in " ".join(capsys.readouterr().err.split())
    assert not Path("mistyped").exists()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (("http://h:1/mcp?x=1", "--query", "a&b"), "http://h:1/mcp?x=1&query=a%26b"),
        (("http://h:1/mcp?x=1", "--set", "s"), "http://h:1/mcp/set/s?x=1"),
        (("http://[::1]:1/mcp/", "--set", "s"), "http://[::1]:1/mcp/set/s"),
        (("http://h:1",), "http://h:1/mcp"),
        (("http://h:1/", "--set", "s"), "http://h:1/mcp/set/s"),
        (("http://h:1/below/",), "http://h:1/below/mcp"),
        (("http://h:1/below/mcp", "--set", "s"), "http://h:1/below/mcp/set/s"),
        (("http://h:1/below", "--set", "s"), "http://h:1/below/mcp/set/s"),
    ],
)
def test_a_set_goes_into_the_path_and_a_query_into_the_query(
    given: tuple[str, ...], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--client", "cursor", "--json", "--url", *given) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    assert config["mcpServers"]["armory"]["url"] == url


@pytest.mark.parametrize(
    "url", ["foo", "http://", "ftp://h/mcp", "http://h:0/mcp", "http://h:x/mcp", "http://a b/mcp"]
)
def test_what_is_no_url_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--client", "cursor", "--url", url) == 2
    assert "is no URL of a gateway" in capsys.readouterr().err


def test_no_url_is_made_of_a_port_that_is_chosen_at_each_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("armory.yaml").write_text("server: {port: 0}\n")
    assert run("--client", "cursor") == 2
    assert "server.port" in capsys.readouterr().err
    assert run("--client", "claude-desktop") == 0  # it starts the gateway itself
    assert "--stdio" in capsys.readouterr().out


def test_a_file_of_windows_keeps_its_newlines() -> None:
    theirs = b'# mine\r\n[mcp_servers.other]\r\nurl = "http://o"\r\n'
    Path("config.toml").write_bytes(theirs)
    assert run("--client", "codex", "--url", URL, "--into", "config.toml") == 0
    written = Path("config.toml").read_bytes()
    assert written.startswith(theirs)
    assert written.count(b"\n") == written.count(b"\r\n")
    assert list(tomllib.loads(written.decode())["mcp_servers"]) == ["other", "armory"]


@pytest.mark.parametrize(
    ("given", "arguments", "said"),
    [
        ("{allow_anonymous: false, api_keys: true}", (), True),
        ("{allow_anonymous: false, api_keys: true}", ("--token",), False),
        ("{api_keys: true}", (), False),
        ("{oauth: {issuer: 'https://login.example', audience: [a]}}", (), False),
    ],
)
def test_that_the_gateway_asks_for_a_credential_is_told(
    given: str, arguments: tuple[str, ...], said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("armory.yaml").write_text(f"security: {given}\naccounts: {{enabled: true}}\n")
    assert run("--client", "cursor", *arguments) == 0
    assert ("asks for a credential: --token" in capsys.readouterr().err) == said


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("host: 0.0.0.0, allowed_hosts: [tools.example]", True),
        ("host: '::', allowed_hosts: [tools.example]", True),
        ("host: 0.0.0.0, allowed_hosts: [tools.example, 127.0.0.1]", False),
        ("host: 0.0.0.0, allowed_hosts: ['127.0.0.1:8080']", False),
        ("host: '::', allowed_hosts: ['::1']", False),
        ("host: 0.0.0.0, allowed_hosts: ['*']", False),
        ("host: 0.0.0.0", False),
        ("allowed_hosts: [tools.example]", False),
    ],
)
def test_a_url_that_the_gateway_refuses_is_told(
    server: str, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("armory.yaml").write_text(
        f"server: {{{server}}}\nsecurity: {{tokens: {{a: {{token: abcdefgh}}}}}}\n"
    )
    assert run("--client", "cursor", "--token") == 0
    assert ("server.allowed_hosts (tools.example)" in capsys.readouterr().err) == said
    assert run("--client", "claude-desktop") == 0  # which starts it, and goes to no URL
    assert "allowed_hosts" not in capsys.readouterr().err


def test_a_client_that_starts_the_gateway_gets_its_whole_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("armory.yaml").write_text("server: {port: 8080}\n")
    program = Path("venv/bin/armory")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "venv/bin")
    assert run("--client", "claude-desktop", "--json") == 0
    told = json.loads(capsys.readouterr().out)["config"]["mcpServers"]["armory"]
    assert told["command"] == str(Path.cwd() / program)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (URL, []),
        ("http://127.0.0.1:8080/mcp", []),
        ("http://[::1]:8080/mcp", ["--allow-http"]),
        ("http://tools.lan:8080/mcp", ["--allow-http"]),
    ],
)
def test_mcp_remote_reaches_the_gateway_and_says_who_asks(
    url: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--client", "mcp-remote", "--url", url, "--token") == 0
    told = json.loads(capsys.readouterr().out)["mcpServers"]["armory"]
    header = ["--header", "Authorization:${AUTH_HEADER}"]
    assert told["args"] == ["-y", "mcp-remote", url, *options, *header]
    assert told["env"] == {"AUTH_HEADER": "Bearer YOUR-TOKEN"}


def test_the_variables_of_the_gateway_need_not_be_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_HERE", raising=False)
    upstream = {"url": "https://docs.example/mcp", "headers": {"X-Key": "${NOT_HERE}"}}
    tokens = {"ann": {"token": "${NOT_HERE}"}}
    config = {"upstreams": {"docs": upstream}, "security": {"tokens": tokens}}
    server = {"host": "0.0.0.0", "port": 8099}
    Path("armory.yaml").write_text(json.dumps({**config, "server": server}))
    assert run("--client", "cursor") == 0
    told = capsys.readouterr()
    entry = json.loads(told.out)["mcpServers"]["armory"]
    assert entry == {"url": "http://127.0.0.1:8099/mcp"}
    said = " ".join(told.err.split())
    assert "2 problems that the gateway would not start with here" in said
    assert "--token takes it from $ARMORY_TOKEN" in said
    Path("armory.yaml").write_text(json.dumps({**config, "server": {"port": "${NOT_HERE}"}}))
    assert run("--client", "cursor") == 2
    assert "server.port: the variable NOT_HERE is not set" in " ".join(
        capsys.readouterr().err.split()
    )
