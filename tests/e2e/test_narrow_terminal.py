"""What commands show in a terminal of 80 columns: no line is longer, no name is cut."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import yaml

from armory.cli.main import COMMANDS
from armory.testing.waiting import wait_until
from tests.e2e.conftest import Command, Serve

pytestmark = pytest.mark.timeout(400)
WIDTH = 80
TERMINAL = {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm"}
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
USER = "someone.with.a.long.address@example-company.org"
LONG = "a-server-with-quite-a-long-name"
LONGEST = "a-server-whose-name-is-so-long-that-no-column-has-room-for-it"
WHY = "this server cannot start, since it lacks a very important variable: THE_LONG_API_KEY"
NEVER_WRAPPED = {("console",): "a link to be copied", ("logs", "broken"): "another program's lines"}


def seen(text: str) -> str:
    """What is left on the screen."""
    return CONTROL.sub("", text).replace("\r", "\n")


def checked(done: Any, *, code: int = 0) -> str:
    """What a command showed, every line of it short enough."""
    assert done.returncode == code, done
    shown = seen(done.stdout) + seen(done.stderr)
    assert [line for line in shown.splitlines() if len(line.rstrip()) > WIDTH] == []
    return shown


@pytest.fixture
def upstreams(demo_upstreams: dict[str, Any]) -> dict[str, Any]:
    """Upstreams of which one has a long name and one says at length why it does not start."""
    broken = {"command": sys.executable, "args": ["-c", f"import sys; sys.exit({WHY!r})"]}
    patient = {**demo_upstreams["notes"], "connect_timeout_s": 100}
    return {LONG: patient, "broken": broken}


def test_help_fits(armory: Command) -> None:
    checked(armory("--help", env=TERMINAL))
    for name in COMMANDS:
        shown = checked(armory(name, "--help", env=TERMINAL))
        assert "...\n" not in shown.partition("\nCommands:")[2]  # what a command does is told whole
        for group in re.findall(r"^  ([a-z]+)  ", shown.partition("\nCommands:")[2], re.MULTILINE):
            checked(armory(name, group, "--help", env=TERMINAL))


def test_what_a_gateway_says_fits(
    armory: Command, serve: Serve, tmp_path: Any, upstreams: dict[str, Any]
) -> None:
    upstreams[LONGEST] = upstreams[LONG]
    config = {"upstreams": upstreams, "observability": {"audit": {"to": "database"}}}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    served = serve(tmp_path / "armory.yaml").ready()
    at = ("--url", served.url)
    names = [f"{LONG}__add_note", f"{LONG}__append_to_note"]

    assert armory("call", names[0], '{"title": "Milk"}', *at).returncode == 0
    wait_until(
        lambda: f"\n{names[0]} " in checked(armory("usage", env=TERMINAL)),
        "the call is not in the statistics, or its tool is cut",
    )
    shown = checked(armory("tools", *at, env=TERMINAL))
    assert all(f"{name} " in shown for name in names)
    found = checked(armory("search", "append to a note", "--explain", *at, env=TERMINAL))
    assert f"{LONG}__append_to_note " in found
    assert "fusion" in found
    checked(armory("call", f"{LONG}__nothing", *at, env=TERMINAL), code=1)
    status = checked(armory("status", env=TERMINAL))
    assert f"  {LONG} " in status
    assert f"  {LONGEST}\n" in status
    assert "THE_LONG_API_KEY" in status
    checked(armory("reload", "--dry-run", env=TERMINAL))
    wait_until(
        lambda: "tools/call search_tools" in checked(armory("audit", env=TERMINAL)),
        "the search is not in the audit",
    )
    checked(armory("audit", "verify", env=TERMINAL))
    for command in NEVER_WRAPPED:
        assert armory(*command, env=TERMINAL).returncode == 0


def test_what_is_opened_here_fits_and_progress_has_totals(
    armory: Command, tmp_path: Any, upstreams: dict[str, Any]
) -> None:
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": upstreams}))
    connected = checked(armory("validate", "--connect", env=TERMINAL), code=3)
    assert "connecting to upstreams 2/2" in connected
    assert f"{LONG}  ready" in connected
    assert "THE_LONG_API_KEY" in connected
    assert "armory.yaml is valid: 2 upstreams, 1 not ready\n" in connected
    (tmp_path / "armory.yaml").write_text("upstreams:\n  x: {command: 5, url: 5, nonsense: 1}\n")
    checked(armory("validate", env=TERMINAL), code=2)
    checked(armory("doctor", "--config", "nowhere.yaml", env=TERMINAL), code=1)


def test_lists_of_accounts_fit_and_identifiers_are_whole(armory: Command, tmp_path: Any) -> None:
    config = {"accounts": {"enabled": True}, "security": {"api_keys": True}}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    checked(armory("users", "create", USER, env=TERMINAL))
    made = armory("keys", "create", "laptop for everyday work", "--user", USER, "--json")
    identifier = re.search(r'"id": "([^"]+)"', made.stdout)
    assert identifier, made
    assert f"{identifier[1]} " in checked(armory("keys", "list", env=TERMINAL))
    assert f"{USER} " in checked(armory("users", "list", env=TERMINAL))
    pack = "everything-that-is-needed-for-research"
    checked(armory("packs", "create", pack, "--title", "All that is needed", env=TERMINAL))
    assert f"{pack} " in checked(armory("packs", "list", env=TERMINAL))
    assert armory("packs", "install", pack, "--user", USER).returncode == 0
    assert f"{pack} " in checked(armory("packs", "list", "--user", USER, env=TERMINAL))
    checked(armory("usage", env=TERMINAL))
