"""`armory add` and `armory export`: servers in, clients out."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from armory.cli.config.export import CLIENTS
from armory.cli.main import main
from armory.config import load_file, load_text
from armory.config.clients.servers import import_servers
from tests.threaded import Answering, served

WEATHER: dict[str, Any] = {
    "name": "io.example/weather",
    "packages": [
        {
            "registryType": "pypi",
            "identifier": "weather",
            "version": "1",
            "transport": {"type": "stdio"},
            "environmentVariables": [{"name": "API_KEY", "isRequired": True, "isSecret": True}],
        }
    ],
}
FILES: dict[str, Any] = {
    "name": "io.other/files",
    "remotes": [{"type": "sse", "url": "https://f.example/sse"}],
}
LATEST = "/v0.1/servers/io.example%2Fweather/versions/latest"


class Registry(Answering):
    """Answers as the official registry does."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        body: Any = None
        if path == LATEST:
            body = {"server": WEATHER, "_meta": {}}
        elif path == "/v0.1/servers":
            word = parse_qs(query)["search"][0]
            found = [server for server in (WEATHER, FILES) if word in server["name"]]
            body = {"servers": [{"server": server} for server in found]}
        elif path == "/page":
            body = "<html>"
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.say(content, status=404 if body is None else 200)


@pytest.fixture
def registry() -> Iterator[str]:
    with served(Registry) as url:
        yield url


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARMORY_CONFIG", raising=False)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.parametrize("asked", ["io.example/weather", "weather", "{registry}" + LATEST])
def test_a_server_of_the_registry_is_added_beside_what_is_there(
    registry: str, folder: Path, asked: str
) -> None:
    Path("armory.yaml").write_text("# mine\nupstreams:\n    here: {url: http://127.0.0.1:1/mcp}\n")
    asked = asked.format(registry=registry)
    given = ("add", asked, "--registry", registry, "--set", "API_KEY=k1", "--env", ".env")
    assert run(*given) == 0
    text = Path("armory.yaml").read_text()
    assert text.startswith("# mine\n")
    assert yaml.safe_load(text)["upstreams"]["weather"] == {
        "command": "uvx",
        "args": ["weather@1"],
        "env": {"API_KEY": "${API_KEY}"},
    }
    assert Path(".env").read_text() == 'API_KEY="k1"\n'
    assert Path(".env").stat().st_mode & 0o777 == 0o600
    assert set(load_file(folder / "armory.yaml").config.upstreams) == {"here", "weather"}


def test_what_to_do_next_is_said_of_the_file_that_was_written(
    registry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("none.json").write_text('{"mcpServers": {}}')
    assert run("import", "none.json", "--into", "other.yaml") == 0
    assert "Next" not in capsys.readouterr().out  # nothing was written
    Path("one.json").write_text('{"mcpServers": {"notes": {"command": "x"}}}')
    assert run("import", "one.json", "--into", "other.yaml") == 0
    said = "Next: armory validate --connect --config other.yaml"
    assert said in capsys.readouterr().out
    given = ("--registry", registry, "--no-input", "--into", "other.yaml")
    assert run("add", "io.example/weather", *given) == 0
    assert said in capsys.readouterr().out


def test_what_nobody_told_is_a_variable_and_said(
    registry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("add", "io.example/weather", "--registry", registry, "--no-input") == 0
    assert "set the variable API_KEY" in " ".join(capsys.readouterr().err.split())
    assert "${API_KEY}" in Path("armory.yaml").read_text()
    Path(".env").write_text("API_KEY=told\n")
    again = ("--name", "again", "--registry", registry, "--no-input")
    assert run("add", "io.example/weather", *again) == 0
    assert "API_KEY" not in capsys.readouterr().err  # it is there by now


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("io.example/none",), 2, "there is no server at"),
        (("io",), 2, "may be several servers: io.example/weather, io.other/files"),
        (("nothing",), 2, "has no server called 'nothing'"),
        (("{registry}/page",), 2, "is no server.json"),
        ((" ",), 2, "expected the NAME of a server, or the FILE or URL"),
        (("absent.json",), 2, "there is no file 'absent.json'"),
        (("weather", "--set", "NOPE=1"), 2, "does not ask for it"),
        (("weather", "--set", "NOPE"), 2, "expected NAME=VALUE"),
        (("weather", "--name", "My Own"), 2, "expected a name such as 'my-own'"),
        (("http://127.0.0.1:1/x",), 3, "cannot be read: Connection refused; a proxy is named by"),
        (("http://a b/x",), 2, "expected an http(s) URL"),
        (("weather", "--registry", "nowhere"), 2, "cannot be read: unknown url type"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    registry: str,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    given = (argument.format(registry=registry) for argument in arguments)
    assert run("add", "--registry", registry, *given) == code
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("armory.yaml").exists()


def test_a_proxy_that_does_not_answer_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("http_proxy", "http://ann:hunter2@127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # made once, with the proxies of then
    assert run("add", "http://registry.example/x") == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "by way of the proxy 127.0.0.1:1: Connection refused; correct it, or $NO_PROXY" in said
    assert "hunter2" not in said


def test_an_answer_that_comes_byte_by_byte_is_waited_for_no_longer_than_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over = threading.Event()

    class Dripping(Answering):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            for _ in range(200):  # ten seconds, if nobody gives up
                self.wfile.write(b" ")
                if over.wait(0.05):
                    return

    monkeypatch.setattr("armory.cli.config.add._TIMEOUT_S", 1.0)
    with served(Dripping) as url:
        assert run("add", f"{url}/server.json") == 3
        over.set()
    said = " ".join(capsys.readouterr().err.split())
    assert f"{url}/server.json cannot be read: it was not there after 1 s" in said


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_gets_the_gateways_address(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("armory.yaml").write_text(
        "server: {host: 0.0.0.0, port: 9000, base_path: /tools}\nsets: {work: {tools: ['a__*']}}\n"
    )
    query = () if client == "claude-desktop" else ("--query", "read mail", "--set", "work")
    assert run("export", "--client", client, "--json", *query) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    (servers,) = config.values()
    shown = json.dumps(servers)
    if client == "claude-desktop":
        assert str(Path("armory.yaml").absolute()) in shown
    else:
        assert "http://127.0.0.1:9000/tools/mcp/set/work?query=read%20mail" in shown
    # What a client is given is what `armory import` understands of such a client.
    imported = import_servers(servers)
    load_text(json.dumps({"upstreams": imported.upstreams}), environ={"ARMORY_TOKEN": "t"})


def test_a_set_that_is_not_configured_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("armory.yaml").write_text("sets: {work: {tools: ['a__*']}, play: {tools: ['b__*']}}\n")
    assert run("export", "--client", "cursor", "--set", "wrok") == 2
    told = capsys.readouterr()
    assert not told.out
    assert "no set is called 'wrok'; there are: work, play" in told.err
    elsewhere = ("--url", "https://tools.example/mcp")  # whose sets only it knows
    assert run("export", "--client", "cursor", "--set", "wrok", *elsewhere) == 0


def test_a_clients_file_keeps_what_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    there = {"theme": "dark", "mcpServers": {"other": {"url": "https://o.example/mcp"}}}
    Path("mcp.json").write_text(json.dumps(there))
    url = ("--url", "https://tools.example/mcp", "--token", "--into", "mcp.json")
    assert run("export", "--client", "cursor", *url) == 0
    assert json.loads(Path("mcp.json").read_text()) == {
        "theme": "dark",
        "mcpServers": {
            "other": {"url": "https://o.example/mcp"},
            "armory": {
                "url": "https://tools.example/mcp",
                "headers": {"Authorization": "Bearer ${env:ARMORY_TOKEN}"},
            },
        },
    }
    Path("mcp.json").write_text("{} // mine")
    assert run("export", "--client", "cursor", *url) == 2
    assert "no plain JSON" in capsys.readouterr().err
    assert Path("mcp.json").read_text() == "{} // mine"


def test_codex_is_told_in_its_own_language(capsys: pytest.CaptureFixture[str]) -> None:
    url = ("--url", "https://tools.example/mcp", "--token")
    assert run("export", "--client", "codex", *url) == 0
    assert capsys.readouterr().out.splitlines() == [
        "[mcp_servers.armory]",
        'url = "https://tools.example/mcp"',
        'bearer_token_env_var = "ARMORY_TOKEN"',
    ]
    assert run("export", "--client", "codex", *url, "--into", "config.toml") == 0
    before = Path("config.toml").read_text()
    assert run("export", "--client", "codex", *url, "--into", "config.toml") == 0
    assert "has it already" in capsys.readouterr().out
    assert Path("config.toml").read_text() == before


def test_secrets_that_are_moved_are_read_again_as_they_are() -> None:
    secrets = {"API_KEY": 'pa\\ss"wört$', "PRIVATE_KEY": "-----BEGIN-----\nMII\n"}
    client = {"mcpServers": {"a": {"command": "python", "env": secrets}}}
    Path("c.json").write_text(json.dumps(client))
    Path(".env").write_text("OLD=1")  # without a newline at its end
    assert run("import", "c.json", "--env", ".env") == 0
    assert load_file(Path("armory.yaml"), environ={}).config.upstreams["a"].env == secrets
    assert Path(".env").read_text().startswith("OLD=1\nAPI_KEY=")


@pytest.mark.parametrize(
    "written",
    [
        '{"upstreams": {"q": {"command": "x"}}}\n',
        '"upstreams":\n  q: {command: x}\n',
        "upstreams :\n  q: {command: x}\n",
        "upstreams:\n- q\n",
    ],
)
def test_a_file_that_cannot_be_added_to_stays_as_it_is(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.json").write_text(json.dumps({"mcpServers": {"a": {"command": "python"}}}))
    Path("armory.yaml").write_text(written)
    assert run("import", "c.json") != 0
    assert "use --print and add it by hand" in capsys.readouterr().err
    assert Path("armory.yaml").read_text() == written


@pytest.mark.parametrize(
    ("tools", "allowed"), [(["*"], ["*"]), (["read", "list"], ["read", "list"]), ([], [])]
)
def test_tools_as_copilot_has_them(tools: list[str], allowed: list[str]) -> None:
    entry = {"type": "local", "command": "x", "args": [], "tools": tools, "disabledTools": ["no"]}
    found = import_servers({"a": entry})
    config = load_text(json.dumps({"upstreams": found.upstreams})).config
    assert (config.upstreams["a"].tools.allow, config.upstreams["a"].tools.deny) == (
        allowed,
        ["no"],
    )
    assert import_servers({"a": {**entry, "tools": "x"}}).upstreams["a"]["tools"] == "x"


MANY: dict[str, Any] = {
    "a": {"command": "x", "args": ["--api-key", "k1", "--token=t1", "--root", "y", "-e", "PIN=1"]},
    "b": {"command": "npx", "args": ["r", "--header", "Authorization: Bearer abcdef123456", "--x"]},
    "C c": {"url": "https://x.example/mcp?api_key=k2&region=eu&token=t2"},
    "d": {"command": "x", "args": ["--token", "--verbose", "--token", "${T}"]},
}


def test_secrets_in_arguments_and_urls_are_moved_too() -> None:
    Path("c.json").write_text(json.dumps({"mcpServers": MANY}))
    assert run("import", "c.json", "--env", ".env") == 0
    written = yaml.safe_load(Path("armory.yaml").read_text())["upstreams"]
    assert written["a"]["args"][:3] == ["--api-key", "${A_API_KEY}", "--token=${A_TOKEN}"]
    assert written["b"]["args"][2] == "Authorization: Bearer ${B_SECRET}"
    query = "?api_key=${C_C_API_KEY}&region=eu&token=${C_C_TOKEN}"
    assert written["c-c"]["url"] == f"https://x.example/mcp{query}"
    loaded = load_file(Path("armory.yaml"), environ={"T": "t"}).config.upstreams
    assert loaded["a"].args == MANY["a"]["args"]
    assert loaded["b"].args == MANY["b"]["args"]
    assert loaded["c-c"].url == MANY["C c"]["url"]
    assert loaded["d"].args == ["--token", "--verbose", "--token", "t"]
    before = Path("armory.yaml").read_text()
    assert run("import", "c.json", "--env", ".env") == 0
    assert Path("armory.yaml").read_text() == before


def test_secrets_in_arguments_and_urls_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.json").write_text(json.dumps({"mcpServers": MANY}))
    assert run("import", "c.json") == 0
    said = " ".join(capsys.readouterr().err.split())
    for where in ("a.args[1]", "a.args[2]", "b.args[2]", "c-c.url"):
        assert f"upstreams.{where}" in said
    assert Path("armory.yaml").stat().st_mode & 0o777 == 0o600


def test_what_the_program_fills_in_is_left_to_it() -> None:
    """As mcp-remote has it: its arguments name a variable that its own `env` has."""
    header, itself = "Authorization:${AUTH_HEADER}", "${MINE} ${env:MINE}"
    env = {"AUTH_HEADER": "Bearer abc", "MINE": "${MINE}", "BARE": "$BARE"}
    args = ["mcp-remote", "--header", header, itself, "${BARE}", "${OTHER}", "$${AUTH_HEADER}"]
    entry = {"command": "npx", "args": args, "env": env}
    Path("c.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    assert run("import", "c.json", "--env", ".env") == 0
    assert "abc" not in Path("armory.yaml").read_text()
    filled = [*args[:3], "m m", "b", "o", "${AUTH_HEADER}"]
    known = {"MINE": "m", "OTHER": "o", "BARE": "b"}
    Path("maps.yaml").write_text(json.dumps({"mcpServers": {"a": entry}}))
    for file in ("armory.yaml", "maps.yaml"):
        loaded = load_file(Path(file), environ=known).config.upstreams["a"]
        assert loaded.args == filled
        assert (loaded.env or {})["AUTH_HEADER"] == "Bearer abc"


def test_a_name_that_is_a_key_stays_it_whatever_comes_before() -> None:
    entry = {"url": "http://up.example/mcp"}
    found = import_servers({"a b": entry, "A.B": entry, "a-b": entry, "a-b-2": entry})
    assert found.names == {"a-b-3": "a b", "a-b-4": "A.B", "a-b": "a-b", "a-b-2": "a-b-2"}
