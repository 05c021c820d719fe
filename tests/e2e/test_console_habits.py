"""How people use the console elsewhere, in headless Chromium: with an input method, in another time
zone, by keyboard alone, on a phone; and the gateway's other pages there.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.accounts.settings import AccountSettings
from armory.authserver.clients import Client
from armory.authserver.requests import Request
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service
from armory.web.connect.pages import connect, who_are_you
from armory.web.oauth.consent import consent_page
from armory.web.pages import message_page
from tests.e2e.test_console import ROOT, packages
from tests.e2e.test_console_mishaps import facts

__all__ = ["packages"]
DRIVER = ROOT / "tests" / "node" / "habits.mjs"
WITHIN_S = 300
TOOLS = [{"name": f"tool_{n}", "description": f"Do {n}"} for n in range(100)]

pytestmark = [pytest.mark.node, pytest.mark.anyio, pytest.mark.timeout(600)]


async def driven(packages: Path, home: Path, scenario: str) -> dict[str, Any]:
    async with running_service(
        f"sqlite:///{home / 'armory.db'}",
        catalog_of({"odd": TOOLS}),
        settings=AccountSettings(),
        embedder=HashingEmbedder(),
    ) as service:
        return await drive(
            packages, {"base": service.url, "token": ADMIN_TOKEN, "scenario": scenario}
        )


async def drive(packages: Path, given: dict[str, Any]) -> dict[str, Any]:
    driver = await asyncio.create_subprocess_exec(
        "node", str(DRIVER), str(packages), json.dumps(given), stdout=subprocess.PIPE
    )
    async with asyncio.timeout(WITHIN_S):
        output, _ = await driver.communicate()
    return facts(output)


async def test_enter_ends_a_word_that_is_composed(tmp_path: Path, packages: Path) -> None:
    found = await driven(packages, tmp_path, "composing")
    assert found["composed"] == [True, False]
    assert found["asked"] == 1  # "No query yet"
    assert found["query"].strip() == "東京"


async def test_times_are_the_readers_and_say_their_day(tmp_path: Path, packages: Path) -> None:
    found = await driven(packages, tmp_path, "times")
    assert found["made"] == 201
    assert "2099-01-02" in found["key"]
    assert "2 Jan 2026, 02:00:00" in found["entry"]
    assert "2 Jan 2026, 02:00:00" in found["chart"]


async def test_the_keyboard_is_never_nowhere(tmp_path: Path, packages: Path) -> None:
    found = await driven(packages, tmp_path, "keyboard")
    assert found["focus"][:4] == ["Make user", "Users", "Users", "Keys"]
    assert found["focus"][4:] == ["Changes", "Undo all", "Configuration"]


async def test_what_is_not_known_is_not_said(tmp_path: Path, packages: Path) -> None:
    figures = (await driven(packages, tmp_path, "away"))["figures"]
    assert [figure.split("\n")[0] for figure in figures] == ["…", "…", "…"]


async def test_many_that_are_down_leave_room(tmp_path: Path, packages: Path) -> None:
    found = await driven(packages, tmp_path, "down")
    assert found["figures"] < 700
    assert "server-49 (down)" in found["others"]


async def test_a_page_that_is_no_more_leaves_the_keyboard_somewhere(
    tmp_path: Path, packages: Path
) -> None:
    found = await driven(packages, tmp_path, "ended")
    assert found["focus"] == "Armory console"
    assert found["current"] == ["Overview"]


async def test_nobody_goes_back_to_what_another_saw(tmp_path: Path, packages: Path) -> None:
    assert (await driven(packages, tmp_path, "back"))["left"] == 0


async def test_an_arrow_key_that_is_held(tmp_path: Path, packages: Path) -> None:
    assert (await driven(packages, tmp_path, "held"))["seen"] is True


async def test_an_endpoint_that_is_no_more(tmp_path: Path, packages: Path) -> None:
    assert (await driven(packages, tmp_path, "gone"))["endpoint"] == ""


async def test_pages_of_the_gateway_fit_a_phone_by_day_and_by_night(
    tmp_path: Path, packages: Path
) -> None:
    where = f"https://{'a-long-name-of-a-host-' * 4}.example/callback/{'x' * 80}"
    client = Client("client", "W" * 120, (where,))
    asked = Request("client", where, None, "challenge", f"https://gateway.example/mcp/{'y' * 80}")
    issuer = f"https://issuer.example/{'z' * 80}"
    shown = {
        "consent": consent_page(client, asked, issuer, "sealed"),
        "nobody": who_are_you("docs", issuer, "That is no credential of this gateway."),
        "known": connect("s" * 60, f"ann@{'example' * 12}.com", connected=True),
        "wrong": message_page("That did not work", "w" * 120, 400),
    }
    texts = {name: response.text for name, response in shown.items()}
    async with (
        running_service(f"sqlite:///{tmp_path / 'armory.db'}", catalog_of({})) as service,
        aiohttp.ClientSession() as http,
        http.get(f"{service.url}/docs") as answer,
    ):
        texts["api"] = await answer.text()
    found = await drive(packages, {"scenario": "pages", "texts": texts})
    assert (found["wide"], found["axe"]) == ([], [])
    assert found["rules"] > 5  # axe did look
