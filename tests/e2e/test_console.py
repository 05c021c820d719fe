"""The console in headless Chromium: every page, 14 and 10,000 tools, an upstream that is down, a
restricted caller, a phone's width; markup in every text that servers give.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from armory.accounts.settings import AccountSettings
from armory.config import load_file, load_text
from armory.evaluation.dataset import load_dataset
from armory.runtime import open_runtime
from armory.testing.embedder import HashingEmbedder
from armory.testing.identity import IdentityProvider
from armory.testing.people import TOKENS, Browser, World
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service
from armory.testing.upstreams.accounts import AccountsServer
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from tests.e2e.markup_server import MARKUP

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "node" / "console.mjs"
ROOT_TOKEN, ANN_TOKEN = "the-token-of-the-operator", "the-token-of-a-reader"
PAGES = ["overview", "playground", "tools", "activity", "people", "usage", "connect"]
FOR_ADMINISTRATORS = ["changes", "configuration"]
MANY: list[dict[str, Any]] = [
    {"name": f"tool_{number}", "description": f"Do what number {number} does"}
    for number in range(10_000)
]
WITHIN_S = 400


@pytest.fixture(scope="module")
def packages() -> Path:
    """Where `npm ci` put what console/package.json names; Chromium is there, too."""
    found = os.environ.get("ARMORY_TEST_CONSOLE_NODE")
    if not found or shutil.which("chromium") is None:
        pytest.skip("no ARMORY_TEST_CONSOLE_NODE with playwright-core and axe-core, or no chromium")
    return Path(found)


def command(
    packages: Path, scenario: str, base: str, token: str, pages: list[str], **more: str
) -> list[str]:
    given: dict[str, Any] = {
        **more,
        "base": base,
        "token": token,
        "scenario": scenario,
        "pages": pages,
        "hostile": MARKUP,
    }
    given["shots"] = os.environ.get("ARMORY_CONSOLE_SHOTS", "")
    return ["node", str(DRIVER), str(packages), json.dumps(given)]


def checked(output: bytes) -> dict[str, Any]:
    """What the driver met, which must be nothing that should not be."""
    report = json.loads(output)
    assert report.get("failed") is None, report["failed"]
    for kind in ("console", "offOrigin", "axe", "markup", "wide"):
        assert report[kind] == [], kind
    assert report["facts"]["rules"] > 10  # axe did look
    return report["facts"]


def drive(packages: Path, scenario: str, base: str, token: str, pages: list[str]) -> dict[str, Any]:
    asked = command(packages, scenario, base, token, pages)
    done = subprocess.run(asked, capture_output=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return checked(done.stdout)


@pytest.fixture
def served(serve: Any, demo_upstreams: dict[str, Any], tmp_path: Path) -> Any:
    """The 14 demonstration tools, a server of markup, and one that is down."""
    env = {"PYTHONPATH": str(ROOT)}
    down = f"import sys; sys.exit({MARKUP!r})"
    return serve(
        {
            "server": {"base_path": "/below", "config_editing": True},
            "upstreams": {
                **demo_upstreams,
                "markup": {
                    "command": sys.executable,
                    "args": ["-m", "tests.e2e.markup_server", str(tmp_path / "seen")],
                    "env": env,
                },
                "broken": {"command": sys.executable, "args": ["-c", down]},
            },
            "accounts": {"enabled": True},
            "observability": {"activity": {"arguments": True, "results": True}},
            "security": {
                "api_keys": True,
                "allow_anonymous": False,
                "pinning": "block",
                "tokens": {
                    "root": {"token": ROOT_TOKEN, "scopes": ["admin"]},
                    "ann": {"token": ANN_TOKEN, "scopes": ["reader"]},
                },
                "policies": [
                    {"who": ["admin"], "allow": ["*"]},
                    {"who": ["reader"], "allow": ["notes__*"], "deny": ["notes__delete_note"]},
                ],
            },
        }
    ).searchable()


@pytest.mark.node
@pytest.mark.timeout(1200)
def test_people_find_their_way_and_markup_stays_text(served: Any, packages: Path) -> None:
    facts = drive(packages, "small", served.base, ROOT_TOKEN, PAGES + FOR_ADMINISTRATORS)
    assert facts["refused"] == "the credential is not valid here"
    assert facts["first"].startswith("notes__")
    assert facts["dragged"] == pytest.approx(0.05, abs=0.02)
    assert facts["listedLower"] > facts["listed"] > 0
    assert facts["keptOnSearch"] is True
    assert "From the console" in facts["called"]
    assert "Written in a form, api_key=***" in facts["said"]
    assert "0123456789abcdef" not in facts["said"]
    assert facts["key"].startswith("acx_")
    (label,) = load_dataset(facts["folder"]).queries
    assert (label.text, label.relevant) == ("write a note", {facts["first"]})

    written = Path(facts["file"]).read_text()
    for kept in (ROOT_TOKEN, ANN_TOKEN, "sets:\n  pair:\n    servers: [notes]\n", "# by another"):
        assert kept in written
    assert "<hidden-" not in written
    Path(facts["file"]).chmod(0o444)
    facts = drive(packages, "readonly", served.base, ROOT_TOKEN, ["configuration"])
    assert "read-only" in facts["reason"]
    assert facts["saves"] == 0

    facts = drive(packages, "restricted", served.base, ANN_TOKEN, PAGES)
    assert "notes__add_note" in facts["text"]
    for hidden in ("time__", "delete_note", "markup", "broken", "Restart", "Right", "Seen as"):
        assert hidden not in facts["text"]

    drive(packages, "phone", served.base, ROOT_TOKEN, PAGES + FOR_ADMINISTRATORS)


@pytest.mark.node
@pytest.mark.anyio
@pytest.mark.timeout(1200)
async def test_ten_thousand_tools(tmp_path: Path, packages: Path) -> None:
    async with running_service(
        f"sqlite:///{tmp_path / 'armory.db'}",
        catalog_of({"many": MANY}),
        settings=AccountSettings(),
        embedder=HashingEmbedder(),
    ) as service:
        asked = command(packages, "large", service.url, ADMIN_TOKEN, [*PAGES, "changes"])
        driver = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
        async with asyncio.timeout(WITHIN_S):
            output, _ = await driver.communicate()
    facts = checked(output)
    assert facts["elements"] < 60
    assert facts["last"] == "10000"
    median = facts["frames"][len(facts["frames"]) // 2]
    assert median < 500, facts["frames"]


@pytest.mark.node
@pytest.mark.anyio
@pytest.mark.timeout(600)
async def test_the_configuration_with_ten_thousand_tools(tmp_path: Path, packages: Path) -> None:
    definitions = [{**tool, "inputSchema": {"type": "object"}} for tool in MANY]
    async with HttpUpstream(Script(tools=definitions)) as upstream:
        config = {
            "server": {"config_editing": True},
            "upstreams": {"many": {"url": upstream.url}},
            "tool_rag": {"enabled": False},
            "security": {
                "allow_anonymous": False,
                "tokens": {"root": {"token": ROOT_TOKEN, "scopes": ["admin"]}},
            },
        }
        file = tmp_path / "armory.yaml"
        file.write_text(json.dumps(config, indent=1))
        loaded = load_file(file, environ={"ARMORY_HOME": str(tmp_path)})
        async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
            assert runtime.listening is not None
            asked = command(packages, "many", runtime.listening.url, ROOT_TOKEN, ["configuration"])
            driver = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
            async with asyncio.timeout(WITHIN_S):
                output, _ = await driver.communicate()
    facts = checked(output)
    assert '"many"' in facts["file"]
    assert ROOT_TOKEN not in facts["file"]


@pytest.fixture
async def at_an_issuer(tmp_path: Path) -> AsyncIterator[tuple[str, IdentityProvider]]:
    """A gateway whose people log in at a provider; its URL, and that."""
    async with IdentityProvider() as provider:
        oauth = {"issuer": provider.issuer, "scopes": ["admin"], "client_id": "armory"}
        config = {
            "security": {"oauth": {**oauth, "client_secret": "armory-secret"}},
            "tool_rag": {"enabled": False},
        }
        loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(tmp_path)})
        async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
            assert runtime.listening is not None
            provider.redirects["armory"] = {f"{runtime.listening.url}/console/"}
            yield runtime.listening.url, provider


@pytest.mark.node
@pytest.mark.timeout(600)
def test_the_first_look_takes_no_login(
    serve: Any, demo_upstreams: dict[str, Any], packages: Path
) -> None:
    gateway = serve({"upstreams": demo_upstreams}).ready()
    facts = drive(packages, "first", gateway.base, "", ["overview", "activity"])
    assert "Upstreams ready\n2 of 2" in facts["overview"]
    assert facts["found"].startswith("notes__")
    assert "From a browser" in facts["called"]
    (entry,) = (row for row in facts["entries"] if "\tcall\t" in row)
    assert "notes__add_note" in entry
    assert "done" in entry
    assert any("write down a note" in row for row in facts["entries"])


@pytest.mark.node
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_people_end_their_logins_at_upstreams(tmp_path: Path, packages: Path) -> None:
    async with (
        IdentityProvider() as provider,
        AccountsServer(provider.verified, provider.issuer) as upstream,
    ):
        world = World(provider, upstream, tmp_path)
        async with world.http, world.gateway() as (url, _):
            async with Browser(world, url) as browser:
                await browser.connect("ann")
            asked = command(packages, "accounts", url, TOKENS["ann"], [])
            driver = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
            async with asyncio.timeout(WITHIN_S):
                output, _ = await driver.communicate()
    facts = checked(output)
    assert facts["wanted"] == 0
    assert facts["people"] == facts["overview"] == f"{url}/connect/docs"


@pytest.mark.node
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_people_log_in_at_the_issuer(
    at_an_issuer: tuple[str, IdentityProvider], packages: Path
) -> None:
    url, provider = at_an_issuer
    asked = command(packages, "oauth", url, "", [], issuer=provider.issuer)
    driver = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
    async with asyncio.timeout(WITHIN_S):
        output, _ = await driver.communicate()
    facts = checked(output)
    assert facts["address"] == f"{url}/console/#/connect"
    assert "ann · administrator" in facts["who"]
    assert (facts["cookies"], facts["kept"]) == (0, [["armory.token"], []])
    assert "no such login" in facts["foreign"]
    (form,) = provider.forms
    assert (form["resource"], len(form["code_verifier"]) > 40) == (f"{url}/mcp", True)


@pytest.mark.anyio
async def test_a_login_at_the_issuer_is_the_tabs_that_began_it(
    at_an_issuer: tuple[str, IdentityProvider],
) -> None:
    url, provider = at_an_issuer
    async with aiohttp.ClientSession() as http:

        async def ask(path: str, body: dict[str, str] | None = None) -> tuple[int, Any]:
            method = "GET" if path == "" else "POST"
            async with http.request(method, f"{url}/v1/login{path}", json=body) as answer:
                return answer.status, await answer.json()

        async def back(begun: dict[str, str]) -> dict[str, str]:
            async with http.get(begun["url"], allow_redirects=False) as sent:
                return dict(URL(sent.headers["Location"]).query)

        assert await ask("") == (200, {"issuer": provider.issuer})
        (_, mine), (_, others) = await ask("/begin"), await ask("/begin")
        assert "verifier" not in mine["kept"]
        assert "armory-secret" not in mine["kept"]
        came = await back(mine)
        status, said = await ask("/finish", {**came, "kept": others["kept"]})
        assert (status, said["code"]) == (503, "login_failed")
        status, said = await ask("/finish", {**came, "kept": "made-up"})
        assert (status, said["parameter"]) == (422, "kept")
        assert provider.forms == []  # no code was given away
        status, done = await ask("/finish", {**came, "kept": mine["kept"]})
        assert status == 200
        headers = {"Authorization": f"Bearer {done['token']}"}
        async with http.get(f"{url}/v1/me", headers=headers) as answer:
            me = await answer.json()
        assert (me["user"], me["admin"]) == ("ann", True)
