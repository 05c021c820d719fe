"""Which command lines may install a server before they start it."""

from __future__ import annotations

import pytest

from armory.upstreams.launchers import launcher_of


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("npx -y mongodb-mcp-server", "npx"),
        ("/usr/local/bin/npx pkg", "npx"),
        ("C:\\nodejs\\npx.cmd pkg", "npx"),
        ("uvx mcp-server-time", "uvx"),
        ("uv run server.py", "uv"),
        ("uv --quiet tool run x", "uv"),
        ("docker run -i --rm image", "docker"),
        ("npm exec -- pkg", "npm"),
        ("bash -lc npx\u00a0pkg", "npx"),
        ("cmd /c npx pkg", "npx"),
        ("env A=b uvx pkg", "uvx"),
        ("python -m server", None),
        ("node npx.js", None),
        ("docker ps", None),
        ("npm start", None),
        ("bash server.sh", None),
    ],
)
def test_launchers_are_known_by_their_command_line(line: str, launcher: str | None) -> None:
    command, *args = (word.replace("\u00a0", " ") for word in line.split(" "))
    assert launcher_of(command, args) == launcher
