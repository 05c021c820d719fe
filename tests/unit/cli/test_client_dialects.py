"""What single clients write otherwise than the rest: Goose, Continue, Codex, Cherry Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armory.cli.config.client_files import servers_of
from armory.config import load_text
from armory.config.clients.servers import Imported, import_servers
from armory.errors import ConfigError

GOOSE = """
GOOSE_MODE: smart_approve
extensions:
  developer: {bundled: true, enabled: true, name: developer, timeout: 300, type: builtin}
  github:
    type: stdio
    name: GitHub
    cmd: npx
    args: [-y, server-github]
    bundled: null
    enabled: true
    env_keys: [GITHUB_TOKEN]
    envs: {LEVEL: "on"}
    timeout: 300
    available_tools: []
  remote:
    type: streamable_http
    name: remote
    uri: https://example.com/mcp
    headers: {}
    enabled: false
    available_tools: [search]
"""
CONTINUE = """
name: mine
mcpServers:
  - name: My SQLite
    command: npx
    args: [-y, mcp-sqlite]
    env: {KEY: "${{ secrets.KEY }}"}
  - name: remote
    type: streamable-http
    url: https://example.com/mcp
    requestOptions:
      headers: {Authorization: "Bearer ${{secrets.REMOTE}}"}
      verifySsl: false
      timeout: 7200
  - uses: someone/other
  - name: remote
    command: another
"""
CODEX = """
[mcp_servers.docs]
command = "docs"
startup_timeout_ms = 20000
env_vars = ["HOME_OF_DOCS", {name = "TOKEN", source = "local"}]
[mcp_servers.docs.tools.search]
approval_mode = "approve"
"""
CODEX_LOGINS = """
[mcp_servers.alone]
url = "https://example.com/mcp"
scopes = ["read"]
oauth_resource = "https://example.com"
[mcp_servers.named]
scopes = ["write"]
url = "https://example.org/mcp"
oauth = {client_id = "us", callback_port = 1234}
[mcp_servers.token]
url = "https://example.net/mcp"
scopes = ["read"]
bearer_token_env_var = "TOKEN"
[mcp_servers.started]
command = "x"
scopes = ["read"]
"""


def read(tmp_path: Path, name: str, text: str) -> Imported:
    (tmp_path / name).write_text(text)
    return import_servers(servers_of(tmp_path / name))


def test_the_extensions_of_goose(tmp_path: Path) -> None:
    found = read(tmp_path, "config.yaml", GOOSE)
    assert found.upstreams["github"] == {
        "command": "npx",
        "args": ["-y", "server-github"],
        "enabled": True,
        "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LEVEL": "on"},
        "call_timeout_s": 300,
    }
    assert found.upstreams["remote"] == {
        "transport": "streamable-http",
        "url": "https://example.com/mcp",
        "headers": {},
        "enabled": False,
        "tools": {"allow": ["search"]},
    }
    assert "command" not in found.upstreams["developer"]


def test_the_list_of_continue(tmp_path: Path) -> None:
    found = read(tmp_path, "config.yml", CONTINUE)
    assert found.upstreams["my-sqlite"]["env"] == {"KEY": "${KEY}"}
    assert found.upstreams["remote"] == {
        "transport": "streamable-http",
        "url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer ${REMOTE}"},
        "call_timeout_s": 7200,
        "tls": {"verify": False},
    }
    assert found.upstreams["remote-4"] == {"command": "another"}
    assert found.names.keys() == {"my-sqlite", "remote", "someone-other", "remote-4"}


def test_what_codex_adds_to_a_server_makes_it_no_other(tmp_path: Path) -> None:
    found = read(tmp_path, "config.toml", CODEX)
    assert found.upstreams["docs"] == {
        "command": "docs",
        "start_timeout_s": 20.0,
        "inherit_env": ["HOME_OF_DOCS", "TOKEN"],
    }
    assert found.notices == [
        "server 'docs': tools left out, for which there is no key here",
    ]


def test_codexs_scopes_are_those_of_a_login(tmp_path: Path) -> None:
    found = read(tmp_path, "config.toml", CODEX_LOGINS)
    assert {key: block.get("auth") for key, block in found.upstreams.items()} == {
        "alone": {"type": "authorization_code", "scopes": ["read"]},
        "named": {"type": "authorization_code", "client_id": "us", "scopes": ["write"]},
        "token": None,
        "started": None,
    }
    assert found.notices == [
        "server 'alone': oauth_resource left out, for which there is no key here",
        "server 'named': oauth.callback_port left out, for which there is no key here",
        "server 'token': scopes left out, for which there is no key here",
        "server 'started': scopes left out, for which there is no key here",
    ]
    load_text(json.dumps({"upstreams": found.upstreams}), environ={"TOKEN": "t"})


@pytest.mark.parametrize("auth", ["bearer", ["x"], 5])
def test_scopes_beside_a_login_that_is_none(auth: Any) -> None:
    found = import_servers({"a": {"url": "https://a/mcp", "auth": auth, "scopes": "read write"}})
    assert found.upstreams["a"]["auth"] == auth  # which validation names
    assert found.notices == ["server 'a': scopes left out, for which there is no key here"]
    alone = import_servers({"a": {"url": "https://a/mcp", "scopes": "read write"}})
    assert alone.upstreams["a"]["auth"]["scopes"] == ["read", "write"]


def test_whom_continue_trusts_and_its_keys() -> None:
    within = {"caBundlePath": "/ca.pem", "verifySsl": True, "clientCertificate": {"cert": "/c"}}
    found = import_servers(
        {
            "one": {"url": "https://a/mcp", "apiKey": "${{ secrets.K }}", "requestOptions": within},
            "two": {"url": "https://b/mcp", "requestOptions": {"caBundlePath": ["/a", "/b"]}},
            "three": {"url": "https://c/mcp", "requestOptions": {"caBundlePath": ["/a"]}},
        }
    )
    assert found.upstreams == {
        "one": {
            "url": "https://a/mcp",
            "headers": {"Authorization": "Bearer ${K}"},
            "tls": {"ca_file": "/ca.pem"},
        },
        "two": {"url": "https://b/mcp"},
        "three": {"url": "https://c/mcp", "tls": {"ca_file": "/a"}},
    }
    assert found.notices == [
        "server 'one': clientCertificate left out, for which there is no key here",
        "server 'two': caBundlePath left out, for which there is no key here",
    ]


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ({"authorization_type": "bearer", "key": "k"}, {"Authorization": "Bearer k"}),
        ({"authorization_type": "basic", "key": "k"}, {"Authorization": "Basic k"}),
        (
            {"authorization_type": "custom", "custom_header": "X-Key", "key": "k"},
            {"X-Key": "k"},
        ),
        ({"source": "user", "authorization_type": "bearer"}, None),
        ({"authorization_type": "custom", "key": "k"}, None),
        ({"key": 5}, None),
    ],
)
def test_the_key_of_librechat(key: Any, headers: Any) -> None:
    found = import_servers({"a": {"url": "https://a/mcp", "apiKey": key}})
    assert found.upstreams["a"].get("headers") == headers
    assert bool(found.notices) is (headers is None)


def test_what_a_login_of_librechat_says_beside_is_told() -> None:
    login = {"authorization_url": "https://b/authorize", "client_id": "us", "scope": "a b"}
    found = import_servers({"a": {"url": "https://a/mcp", "oauth": login}})
    assert found.upstreams["a"]["auth"] == {
        "type": "authorization_code",
        "client_id": "us",
        "scopes": ["a", "b"],
    }
    assert found.notices == [
        "server 'a': oauth.authorization_url left out, for which there is no key here"
    ]


def test_what_a_server_of_this_kind_has_no_use_for() -> None:
    found = import_servers({"a": {"url": "https://a/mcp", "env": {"A": "b"}}})
    assert found.notices == ["server 'a': env left out, which a server at a URL has no use for"]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(60, 60), (600, 600), (1_800, 1_800), (3_600, 3_600), (1_000, 1), (5_000, 5), (600_000, 600)],
)
def test_time_outs_in_seconds_and_in_milliseconds(written: int, seconds: float) -> None:
    found = import_servers({"a": {"command": "x", "timeout": written}})
    assert found.upstreams["a"]["call_timeout_s"] == seconds


def test_codexs_time_to_start_is_one_to_connect_where_nothing_is_started(tmp_path: Path) -> None:
    text = '[mcp_servers.far]\nurl = "https://example.com/mcp"\nstartup_timeout_sec = 20\n'
    found = read(tmp_path, "config.toml", text)
    assert found.upstreams["far"] == {"url": "https://example.com/mcp", "connect_timeout_s": 20}
    assert found.notices == []


@pytest.mark.parametrize("key", ["startup_timeout_ms", "initTimeout", "connectionTimeout"])
def test_times_to_start_in_milliseconds(key: str) -> None:
    found = import_servers({"near": {"command": "x", key: 1_500}, "far": {"url": "y", key: 1_500}})
    assert found.upstreams["near"] == {"command": "x", "start_timeout_s": 1.5}
    assert found.upstreams["far"] == {"url": "y", "connect_timeout_s": 1.5}
    assert found.notices == []


def test_a_variable_that_is_null_is_not_set() -> None:
    found = import_servers({"a": {"command": "x", "env": {"GONE": None, "HERE": "1"}}})
    assert found.upstreams["a"]["env"] == {"HERE": "1"}


def test_what_is_null_is_not_there() -> None:
    entry = {"command": "x", "args": None, "env": None, "url": None}
    assert import_servers({"a": entry}).upstreams["a"] == {"command": "x"}


def test_cherry_studios_own_switch_and_address() -> None:
    servers = {
        "off": {"isActive": False, "command": "x"},
        "on": {"isActive": True, "type": "streamableHttp", "baseUrl": "https://example.com/mcp"},
    }
    found = import_servers(servers)
    assert found.upstreams == {
        "on": {"transport": "streamable-http", "url": "https://example.com/mcp"}
    }
    assert found.notices == ["server 'off' is disabled there and left out"]


def test_names_that_editors_fill_in() -> None:
    entry = {"command": "${workspaceFolder}${/}run", "args": ["${workspaceFolderBasename}"]}
    found = import_servers({"a": entry}, workspace="/home/ann/shop")
    assert found.upstreams["a"] == {"command": "/home/ann/shop/run", "args": ["shop"]}


@pytest.mark.parametrize(
    "data",
    [
        {"amp.mcpServers": {"a": {"command": "x"}}},
        {"folders": [], "settings": {"mcp": {"servers": {"a": {"command": "x"}}}}},
        {"customizations": {"vscode": {"mcp": {"servers": {"a": {"command": "x"}}}}}},
        {"mcpServers": {"a": {"transport": {"type": "stdio", "command": "x"}}}},
    ],
    ids=["amp", "workspace", "devcontainer", "nested"],
)
def test_servers_are_found_where_each_client_nests_them(tmp_path: Path, data: Any) -> None:
    assert read(tmp_path, "x.json", json.dumps(data)).upstreams == {"a": {"command": "x"}}


def test_a_file_that_is_nothing_but_servers(tmp_path: Path) -> None:
    text = json.dumps({"Files": {"command": "x", "working_directory": None}, "far": {"url": "y"}})
    found = read(tmp_path, "mcp.json", text)
    assert found.upstreams == {"files": {"command": "x"}, "far": {"url": "y"}}


@pytest.mark.parametrize(
    "data", [{"mcp": {"command": "x"}, "other": 1}, {"one": {"command": "x"}, "two": {}}, {}]
)
def test_a_file_of_something_else(tmp_path: Path, data: Any) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="has no servers"):
        servers_of(tmp_path / "mcp.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extensions: {recommendations: [x]}", "has no servers"),
        ("servers: [{url: 'https://example.com'}]", "has no servers"),
        ("mcpServers:\n\t- x", "a tab"),
        ("- x", "a mapping of blocks is expected"),
    ],
)
def test_yaml_without_servers(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, "x.yaml", text)


@pytest.mark.parametrize(
    ("command", "args", "here"),
    [
        ("cmd", ["/c", "npx", "-y", "pkg"], ["npx", "-y", "pkg"]),
        ("cmd.exe", ["/D", "/S", "/C", "npx -y pkg"], ["npx", "-y", "pkg"]),
        ("C:\\Windows\\System32\\cmd.exe", ["/c", "uvx.exe", "pkg"], ["uvx", "pkg"]),
        ("C:\\Program Files\\nodejs\\npx.cmd", ["-y", "pkg"], ["npx", "-y", "pkg"]),
        ("wsl", ["bash", "-ic", "npx -y pkg"], ["bash", "-ic", "npx -y pkg"]),
        ("wsl.exe", ["-d", "Ubuntu", "--", "./serve"], ["./serve"]),
        ("cmd", ["/c"], ["cmd", "/c"]),
        ("python", ["a.py"], ["python", "a.py"]),
        ("D:\\bin\\serve.exe", [], ["D:\\bin\\serve.exe"]),
    ],
)
def test_what_only_windows_needs_is_left_out(
    command: str, args: list[str], here: list[str]
) -> None:
    found = import_servers({"a": {"command": command, "args": args}})
    block = found.upstreams["a"]
    assert [block["command"], *block["args"]] == here
    assert any("as Windows needs it" in notice for notice in found.notices) == (
        here != [command, *args]
    )


def test_what_a_path_of_windows_is_in_wsl_is_told() -> None:
    args = ["/c", "npx", "-y", "pkg", "C:\\Users\\me", "https://a/mcp", "D:/data"]
    found = import_servers({"a": {"command": "cmd", "args": args}})
    assert found.upstreams["a"]["args"] == args[2:]
    assert found.notices[1:] == [
        "server 'a': 'C:\\Users\\me' is a path of Windows; in WSL it is '/mnt/c/Users/me'",
        "server 'a': 'D:/data' is a path of Windows; in WSL it is '/mnt/d/data'",
    ]
