"""The image runs as the chart runs it: unprivileged, on a read-only root, under an init."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.testing.waiting import wait_until
from tests.image.engines import USER, Container, Engine, engine

pytestmark = pytest.mark.timeout(900)
WITHIN_S = 90.0
HEALTHY = ("python", "-I", "/usr/local/lib/armory/healthcheck.py")
ORPHANS = "(sleep 0.3 &) ; (sleep 0.3 &) ; exec python -m armory.demo"
"""A stdio server that leaves processes behind."""
STATES = """
import glob
for path in glob.glob("/proc/[0-9]*/stat"):
    try:
        with open(path) as stat:
            print(stat.read().rpartition(")")[2].split()[0])
    except OSError:  # it ended meanwhile
        pass
"""
"""Prints the state of every process, a letter each."""

Start = Callable[..., Container]


@pytest.fixture(scope="module")
def images() -> Engine:
    found = engine("armory")
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def start(images: Engine, tmp_path: Path) -> Iterator[Start]:
    started: list[Container] = []

    def run(config: dict[str, Any], *args: str, env: tuple[str, ...] = ()) -> Container:
        folder, home = tmp_path / "etc", tmp_path / "home"
        folder.mkdir(exist_ok=True)
        home.mkdir(exist_ok=True)
        for path in (*reversed(tmp_path.parents), tmp_path, folder):
            if path.is_relative_to("/tmp") and path != Path("/tmp"):
                path.chmod(path.stat().st_mode | 0o755)
        (folder / "armory.yaml").write_text(yaml.safe_dump(config))
        started.append(images.start(folder, home, args, env))
        return started[-1]

    yield run
    for one in started:
        one.remove()


def until_well(container: Container) -> None:
    wait_until(lambda: container.exec(*HEALTHY)[0] == 0, container, WITHIN_S)


def config(**server: Any) -> dict[str, Any]:
    return {
        "server": server,
        "security": {"tokens": {"main": {"token": "${ARMORY_TOKEN}"}}},
        "upstreams": {"notes": {"command": "sh", "args": ["-c", ORPHANS]}},
    }


TOKEN = "ARMORY_TOKEN=a-long-random-text\n"


def test_it_serves_with_no_rights_on_a_read_only_root_and_ends_when_asked(start: Start) -> None:
    container = start(config(base_path="/tools", port=8123), env=(TOKEN,))
    until_well(container)
    code, status = container.exec("cat", "/proc/1/status")
    assert code == 0
    said = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert said["Name"] == "tini"
    assert set(said["Uid"].split()) == {str(USER)}
    assert set(said["Gid"].split()) == {str(USER)}
    for name in ("CapPrm", "CapEff", "CapBnd"):
        assert int(said[name], 16) == 0, name
    assert said["NoNewPrivs"] == "1"
    code, text = container.exec("touch", "/usr/x")
    assert code != 0
    assert "Read-only" in text
    code, text = container.exec(
        "armory", "call", "--url", "http://127.0.0.1:8123/tools/mcp", "notes__list_notes", "{}"
    )
    assert code == 0, text
    assert container.stop() == 0, container.log()
    assert "shutting down" in container.log()


def test_what_stdio_servers_leave_behind_does_not_stay(start: Start) -> None:
    container = start(config(), env=(TOKEN,))
    until_well(container)
    end = time.monotonic() + WITHIN_S
    seen = 0
    while True:
        code, text = container.exec("python", "-c", STATES)
        assert code == 0, text
        seen += 1
        running = container.exec("sh", "-c", "cat /proc/[0-9]*/comm")[1].split()
        # what has just ended is one for a moment, until the init has seen it
        gone = "sleep" not in running and "Z" not in text
        if gone and "python" in running and seen > 2:
            break
        assert time.monotonic() < end, (running, text)
        time.sleep(0.2)


def test_a_configuration_that_does_not_hold_ends_it_with_the_line(start: Start) -> None:
    container = start({"server": {"prot": 1}}, env=(TOKEN,))
    wait_until(lambda: "did you mean 'port'" in container.log(), container, WITHIN_S)


def test_the_full_image_starts_what_npx_and_uvx_are_asked_for(tmp_path: Path) -> None:
    """Without a network there is nothing to fetch: both say so, and their caches can be written."""
    found = engine("full")
    if isinstance(found, str):
        pytest.skip(found)
    folder, home = tmp_path / "etc", tmp_path / "home"
    for path in (folder, home):
        path.mkdir()
    (folder / "armory.yaml").write_text(yaml.safe_dump(config()))
    container = found.start(folder, home, (), (TOKEN,))
    try:
        until_well(container)
        for command, said in (
            (("node", "--version"), r"v2\d"),
            (("npx", "--version"), r"\d+"),
            (("uvx", "--version"), r"uvx? \d"),
            (("npm", "config", "get", "cache"), "/var/lib/armory/npm"),
            (("uv", "cache", "dir"), "/var/lib/armory/uv"),
            (("sh", "-c", "npx --offline -y no-such-package; ls -d /var/lib/armory/npm"), "npm"),
        ):
            code, text = container.exec(*command)
            assert code == 0, text
            assert re.search(said, text), text
            assert "EROFS" not in text, text
    finally:
        container.remove()


def test_the_size_is_the_one_that_is_told(images: Engine) -> None:
    """The documents name it; here it may be a quarter more, since bases differ."""
    size = images.size_mib()
    if place := os.environ.get("ARMORY_TEST_FIGURES"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"image_mib": size}) + "\n")
    assert size < 750
