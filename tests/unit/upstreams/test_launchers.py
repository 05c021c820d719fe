"""Which command lines may install a server before they start it."""

from __future__ import annotations

import pytest

from armory.upstreams.launchers import lacks_input, launcher_of


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


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("docker run --rm mcp/time", True),
        ("/usr/bin/podman run --rm --init -e KEY=i image", True),
        ("docker run -i --rm mcp/time", False),
        ("docker run --rm -it mcp/time", False),
        ("nerdctl run --interactive image", False),
        ("docker exec box serve", False),
        ("uv run server.py", False),
    ],
)
def test_a_container_without_input_is_known(line: str, lacks: bool) -> None:
    command, *args = line.split(" ")
    assert lacks_input(command, args) is lacks
