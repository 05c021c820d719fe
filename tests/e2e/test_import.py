"""`armory import`: the files of every client, and secrets that stand in them in clear."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.config import load_file

Command = Callable[..., Any]
CODEX = """
[mcp_servers.docs]
url = "https://docs.example/mcp"
bearer_token_env_var = "DOCS_TOKEN"
tool_timeout_sec = 30
enabled_tools = ["search"]

[mcp_servers.local]
command = "npx"
args = ["-y", "local-server"]
env_vars = ["LOCAL_HOME"]
startup_timeout_sec = 60
"""
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "codex": (
        "config.toml",
        CODEX,
        {
            "docs": {
                "url": "https://docs.example/mcp",
                "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"},
                "call_timeout_s": 30,
                "tools": {"allow": ["search"]},
            },
            "local": {
                "command": "npx",
                "args": ["-y", "local-server"],
                "inherit_env": ["LOCAL_HOME"],
                "start_timeout_s": 60,
            },
        },
    ),
    "opencode": (
        "opencode.json",
        json.dumps(
            {
                "mcp": {
                    "one": {
                        "type": "local",
                        "command": ["bun", "x", "one"],
                        "environment": {"A": "{env:A_VALUE}"},
                        "enabled": False,
                        "timeout": 5000,
                    },
                    "two": {
                        "type": "remote",
                        "url": "https://two.example",
                        "oauth": {"scope": "a b"},
                    },
                }
            }
        ),
        {
            "one": {
                "command": "bun",
                "args": ["x", "one"],
                "env": {"A": "${A_VALUE}"},
                "enabled": False,
                "call_timeout_s": 5.0,
            },
            "two": {
                "url": "https://two.example",
                "auth": {"type": "authorization_code", "scopes": ["a", "b"]},
            },
        },
    ),
    "zed": (
        "settings.json",
        '{"context_servers": {"z": {"source": "custom", // mine\n'
        '"command": {"path": "z-server", "args": ["--x"], "env": {"B": "1"}}}}}',
        {"z": {"command": "z-server", "args": ["--x"], "env": {"B": "1"}}},
    ),
    "gemini": (
        "settings.json",
        json.dumps(
            {
                "mcpServers": {
                    "g": {
                        "httpUrl": "https://g.example/mcp",
                        "timeout": 30000,
                        "includeTools": ["a"],
                        "excludeTools": ["b"],
                        "oauth": {"enabled": True, "clientId": "me", "scopes": ["x"]},
                    }
                }
            }
        ),
        {
            "g": {
                "url": "https://g.example/mcp",
                "transport": "streamable-http",
                "call_timeout_s": 30.0,
                "tools": {"allow": ["a"], "deny": ["b"]},
                "auth": {"type": "authorization_code", "client_id": "me", "scopes": ["x"]},
            }
        },
    ),
    "claude-code": (
        ".claude.json",
        json.dumps(
            {
                "mcpServers": {"all": {"type": "stdio", "command": "all"}},
                "projects": {
                    "/home/me/Web Shop": {"mcpServers": {"db": {"command": "db-one"}}},
                    "/home/me/blog": {"mcpServers": {"db": {"command": "db-two"}}},
                    "/home/me/none": {},
                },
            }
        ),
        {
            "all": {"command": "all"},
            "db": {"command": "db-one"},
            "db-blog": {"command": "db-two"},
        },
    ),
}


@pytest.mark.parametrize("client", FILES)
def test_the_file_of_each_client_is_read(armory: Command, tmp_path: Path, client: str) -> None:
    name, text, expected = FILES[client]
    (tmp_path / name).write_text(text)
    done = armory("import", name, "--print")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["upstreams"] == expected


SECRETS = {
    "mcpServers": {
        "git": {"command": "git-server", "env": {"GIT_TOKEN": "of-git-1", "HOME_DIR": "/x"}},
        "hub": {"url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer of-hub-2"}},
        "files": {"command": "files", "envFile": "${workspaceFolder}/vars.env"},
        "known": {"command": "known", "env": {"API_KEY": "${KNOWN_KEY:-none}"}},
    }
}


def test_secrets_in_clear_are_warned_of_and_what_is_written_is_private(
    armory: Command, tmp_path: Path
) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps(SECRETS))
    (tmp_path / "vars.env").write_text("# mine\nexport FILES_SECRET='of-files-3'\n")
    done = armory("import", "mcp.json")
    assert done.returncode == 0, done.stderr
    for place in (
        "upstreams.git.env.GIT_TOKEN",
        "upstreams.hub.headers.Authorization",
        "upstreams.files.env.FILES_SECRET",
        "--env .env",
    ):
        assert place in done.stderr
    assert "upstreams.known" not in done.stderr
    assert "of-git-1" not in done.stderr + done.stdout
    assert (tmp_path / "armory.yaml").stat().st_mode & 0o777 == 0o600


def test_with_a_file_for_them_secrets_become_variables_that_are_known(
    armory: Command, tmp_path: Path
) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps(SECRETS))
    (tmp_path / "vars.env").write_text("FILES_SECRET=of-files-3\n")
    (tmp_path / ".env").write_text("GIT_TOKEN=another\n")
    done = armory("import", "mcp.json", "--env", ".env")
    assert done.returncode == 0, done.stderr
    assert "in clear" not in done.stderr
    assert "not set" not in done.stderr
    file = tmp_path / "armory.yaml"
    assert "of-" not in file.read_text()
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    upstreams = load_file(file, {"ARMORY_HOME": str(tmp_path)}).config.upstreams
    assert upstreams["git"].env == {"GIT_TOKEN": "of-git-1", "HOME_DIR": "/x"}
    assert upstreams["hub"].headers == {"Authorization": "Bearer of-hub-2"}
    assert upstreams["files"].env == {"FILES_SECRET": "of-files-3"}
    assert (tmp_path / ".env").read_text().startswith("GIT_TOKEN=another\n")


@pytest.mark.parametrize("text", ["[", "mcp_servers = 3", "a = \x00", f"a = {'1' * 5_000}"])
def test_a_file_that_is_none_is_told_in_one_sentence(
    armory: Command, tmp_path: Path, text: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    done = armory("import", "config.toml")
    assert done.returncode == 2
    assert "defect" not in done.stderr


@pytest.mark.parametrize("command", ["add server.json", "call a__b"])
def test_json_that_is_nested_without_end_is_told_in_one_sentence(
    armory: Command, tmp_path: Path, command: str
) -> None:
    deep = f'{{"a":{"[" * 20_000}{"]" * 20_000}}}'
    (tmp_path / "server.json").write_text(deep)
    done = armory(*command.split(), *([deep] if command.startswith("call") else []))
    assert done.returncode == 2
    assert "JSON" in done.stderr
    assert "defect" not in done.stderr


def test_what_was_renamed_is_not_taken_over_twice_and_switches_are_texts(
    armory: Command, tmp_path: Path
) -> None:
    servers = {
        "A B": {"command": "one"},
        "a-b": {"command": "two", "env": {"DEBUG": True, "QUIET": False, "PORT": 80}},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert armory("import", "mcp.json").returncode == 0
    done = armory("import", "mcp.json")
    assert done.returncode == 0, done.stderr
    assert "A B is in armory.yaml already" in done.stderr
    upstreams = load_file(tmp_path / "armory.yaml").config.upstreams
    assert sorted(upstreams) == ["a-b", "a-b-2"]
    assert upstreams["a-b"].env == {"DEBUG": "true", "QUIET": "false", "PORT": "80"}
