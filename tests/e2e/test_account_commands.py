"""`armory users`, `keys`, `packs` and `usage`: what they say, and what a running gateway hears."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from armory.accounts.usage.statistics import UsageStatistics
from armory.storage.database import Database
from armory.testing.waiting import wait_until

Run = Callable[..., Any]
pytestmark = pytest.mark.timeout(200)
CONFIG = """upstreams: {time: {command: nothing}}
accounts: {enabled: true, plans: {free: {queries_limit: 5}}}
"""


def said(done: Any) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def here(armory: Run, tmp_path: Path) -> Run:
    (tmp_path / "armory.yaml").write_text(CONFIG)
    return armory


def test_somebody_is_switched_off_where_the_gateway_s_variables_are_not_set(
    armory: Run, tmp_path: Path
) -> None:
    upstreams = 'upstreams: {docs: {url: "https://d.example/mcp", headers: {X-Key: "${NOT_SET}"}}}'
    token = "security: {api_keys: true, tokens: {ann: {token: '${NOT_SET}'}}}"
    rest = "observability: {audit: {to: database}}"
    (tmp_path / "armory.yaml").write_text(
        "\n".join((CONFIG.splitlines()[1], upstreams, token, rest))
    )
    for command in (
        "users create ann",
        "users change ann --inactive",
        "packs create p --server docs",
    ):
        done = armory(*command.split())
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("has 2 problems that the gateway would not start with") == 1
    assert [user["is_active"] for user in said(armory("users", "list", "--json"))] == [False]
    assert armory("keys", "create", "k", "--user", "ann").returncode == 0
    assert armory("audit").returncode == 0
    for elsewhere in ("storage: {url: '${NOT_SET}'}", "storge: {url: 'sqlite:///x.db'}"):
        (tmp_path / "armory.yaml").write_text(elsewhere)
        assert armory("users", "list").returncode == 2, "another database is not meant"


def test_users_keys_and_packs_from_making_to_deleting(here: Run) -> None:
    assert said(here("users", "create", "ann", "--json"))["plan"] == "free"
    again = here("users", "create", "ann")
    assert again.returncode == 1
    assert "a user 'ann' exists already" in again.stderr
    assert here("users", "create", " ann").returncode == 2
    assert [user["id"] for user in said(here("users", "list", "--json"))] == ["ann"]
    for command in (("create", "bob"), ("change", "ann")):
        refused = here("users", *command, "--plan", "fre")
        assert refused.returncode == 2
        assert "no plan 'fre'; accounts.plans has: free" in refused.stderr

    made = said(here("keys", "create", "laptop", "--user", "ann", "--expires", "90d", "--json"))
    assert made["key"].startswith("acx_")
    unknown = here("keys", "create", "laptop", "--user", "eve")
    assert unknown.returncode == 2
    assert "no user 'eve'; `armory users create eve` makes it" in unknown.stderr
    assert "security.api_keys is off" in here("keys", "create", "service").stderr
    mistaken = here("keys", "create", "ann")
    assert "there is a user 'ann', whose key this is not" in mistaken.stderr
    assert "whose key this is not" not in here("keys", "create", "no user's").stderr
    listed = said(here("keys", "list", "--json"))
    assert made["id"] in [key["id"] for key in listed]
    assert "key" not in listed[0]
    assert made["key"] not in here("keys", "list").stdout
    assert here("keys", "revoke", made["id"]).returncode == 0
    assert here("keys", "revoke", "nope").returncode == 1
    assert here("keys", "create", "x", "--expires", "soon").returncode == 2
    past = here("keys", "create", "x", "--expires", "2020-01-31")
    assert past.returncode == 2
    assert "--expires is '2020-01-31', which is past" in past.stderr

    assert here("packs", "create", "ops", "--server", "time", "--tool", "time__b").returncode == 0
    for option, value, said_of in (
        ("--server", "tmie", "no server 'tmie'; there are: time"),
        ("--tool", "a__b", "is of no known server"),
        ("--owner", "eve", "no user 'eve'"),
    ):
        refused = here("packs", "create", "more", option, value)
        assert refused.returncode == 2
        assert said_of in refused.stderr
    assert here("packs", "create", "Bad Id").returncode == 2
    long = here("packs", "create", "long", "--server", "time", "--description", "x" * 2_001)
    assert long.returncode == 2
    assert "description has 2,001 characters; at most 2,000" in long.stderr
    assert "empty holds nothing; --server" in here("packs", "create", "empty").stderr
    nobody = here("packs", "install", "ops", "--user", "")
    assert nobody.returncode == 2
    assert "the installation made it" not in nobody.stderr
    assert here("packs", "install", "ops", "--user", "ann").returncode == 0
    taken = here("packs", "create", "ops", "--server", "time")
    assert (taken.returncode, "a pack 'ops' exists already" in taken.stderr) == (1, True)
    absent = here("packs", "install", "nope", "--user", "ann")
    assert absent.returncode == 1
    assert "no pack 'nope'; `armory packs list`" in absent.stderr
    for kind, name, said_of in (
        ("server", "tmie", "no server 'tmie'; there are: time"),
        ("tool", "git__nope", "is of no known server"),
    ):
        refused = here("packs", "install", name, "--kind", kind, "--user", "ann")
        assert refused.returncode == 2
        assert said_of in refused.stderr
    assert here("packs", "install", "time", "--kind", "server", "--user", "bob").returncode == 0
    assert here("packs", "install", "time__b", "--kind", "tool", "--user", "bob").returncode == 0
    assert here("packs", "disable", "ops", "--user", "ann").returncode == 0
    shown = said(here("packs", "list", "--user", "ann", "--json"))
    assert shown["installations"][0]["is_active"] is False
    assert here("packs", "enable", "ops", "--user", "ann").returncode == 0
    assert here("packs", "uninstall", "ops", "--user", "ann").returncode == 0
    assert here("packs", "uninstall", "ops", "--user", "ann").returncode == 1
    assert here("packs", "delete", "ops").returncode == 0

    usage = said(here("usage", "--user", "ann", "--json"))
    assert usage["quota"]["queries_limit"] == 5
    assert said(here("usage", "--json")) == {"rows": []}
    assert said(here("usage", "--queries", "3", "--json")) == {"rows": []}
    off = "ann is switched off: no gateway accepts keys of that user"
    assert off not in here("keys", "create", "last", "--user", "ann").stderr
    changed = said(here("users", "change", "ann", "--inactive", "--json"))
    assert changed["is_active"] is False
    assert off in here("keys", "create", "later", "--user", "ann").stderr
    deleted = here("users", "delete", "ann")
    assert (deleted.returncode, deleted.stdout) == (0, "deleted ann\n")
    assert "ann was switched off; whoever comes under that name" in deleted.stderr
    assert here("users", "delete", "ann").returncode == 1
    assert "switched off" not in here("users", "delete", "bob").stderr


def test_usage_shows_how_tools_and_their_servers_fare(armory: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'accounts.db'}"
    config = {"upstreams": {"time": {"command": "nothing"}}, "storage": {"url": url}}
    (tmp_path / "armory.yaml").write_text(json.dumps(config))

    async def called() -> None:
        database = Database(url)
        await database.open()
        usage = UsageStatistics(database)
        usage.called("ann", "time__now", ok=True, latency_ms=20)
        usage.called("ann", "time__now", ok=False, latency_ms=20)
        usage.observed({"time": True}, 3_000)
        usage.observed({"time": False}, 1_000)
        await usage.flush()
        await database.close()

    asyncio.run(called())
    (row,) = said(armory("usage", "--json"))["rows"]
    assert (row["tool"], row["uses"]) == ("time__now", 2)
    assert (row["error_rate"], row["uptime"]) == (0.5, 0.75)
    assert "uptime" in armory("usage").stdout
    # which takes seconds after a year, and so is left out where it is not asked for
    with closing(sqlite3.connect(tmp_path / "accounts.db")) as database:
        database.execute("ALTER TABLE server_days RENAME TO elsewhere")
        database.commit()
    assert armory("usage").returncode == 1
    assert said(armory("users", "create", "ann", "--json"))["id"] == "ann"
    assert said(armory("keys", "create", "laptop", "--user", "ann", "--json"))["user"] == "ann"
    assert said(armory("usage", "--user", "ann", "--json"))["rows"][0]["uses"] == 2


def test_a_running_gateway_hears_of_a_revocation_by_command(
    serve: Callable[..., Any], armory: Run, tmp_path: Path
) -> None:
    database = tmp_path / "shared.db"
    settings = {
        "upstreams": {},
        "accounts": {"enabled": True},
        "security": {"api_keys": True, "allow_anonymous": False},
        "storage": {"url": f"sqlite:///{database}"},
    }
    (tmp_path / "armory.yaml").write_text(json.dumps(settings))
    said(armory("users", "create", "ann", "--json"))
    made = said(armory("keys", "create", "a", "--user", "ann", "--json"))
    served = serve(settings).ready()

    def status() -> int:
        request = urllib.request.Request(f"{served.base}/v1/catalog")
        request.add_header("Authorization", f"Bearer {made['key']}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    assert status() == status() == 200
    assert armory("keys", "revoke", made["id"]).returncode == 0
    wait_until(lambda: status() == 401)


def test_what_is_installed_where_nobody_goes_by_it_is_told(armory: Run, tmp_path: Path) -> None:
    for enabled in ("false", "true"):
        text = f"upstreams: {{time: {{command: nothing}}}}\naccounts: {{enabled: {enabled}}}\n"
        (tmp_path / "armory.yaml").write_text(text)
        done = armory("packs", "install", "time", "--kind", "server", "--user", "ann")
        assert done.returncode == 0, done.stderr
        assert ("accounts.enabled is off" in done.stderr) is (enabled == "false")


def test_a_tool_that_no_gateway_has_is_told(
    armory: Run, serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    """Made all the same: it may come later, and without a gateway nobody knows."""
    config = {"upstreams": {"notes": demo_upstreams["notes"]}, "accounts": {"enabled": True}}
    (tmp_path / "armory.yaml").write_text(json.dumps(config))
    absent = "no gateway that runs here has a tool 'notes__burn' now"

    def made(name: str) -> str:
        tools = ("--tool", "notes__burn", "--tool", "notes__list_notes")
        done = armory("packs", "create", name, *tools)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "has a tool" not in made("before")
    serve(tmp_path / "armory.yaml").ready()
    told = made("meanwhile")
    assert absent in told
    assert "list_notes" not in told
    done = armory("packs", "install", "notes__burn", "--kind", "tool", "--user", "ann")
    assert (done.returncode, absent in done.stderr) == (0, True)


def test_a_slip_in_a_users_name_is_told(here: Run) -> None:
    assert here("users", "create", "ann").returncode == 0
    for command in (("usage",), ("packs", "list"), ("keys", "list")):
        assert "no user 'amn' yet" in here(*command, "--user", "amn").stderr
        assert "no user" not in here(*command, "--user", "ann").stderr
    install = ("packs", "install", "time", "--kind", "server", "--user")
    assert "no user" not in here(*install, "ann").stderr
    done = here(*install, "amn")
    assert done.returncode == 0  # one of an identity provider may come later
    assert "there was no user 'amn'; the installation made it" in done.stderr
