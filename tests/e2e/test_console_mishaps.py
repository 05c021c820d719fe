"""What goes wrong around the console, in headless Chromium: credentials that are none, words that
JavaScript has a use for, answers that are not the gateway's, two who edit the configuration.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from armory.accounts.packs import Pack
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import ADMIN_TOKEN, catalog_of, running_service
from tests.e2e.test_console import ROOT, packages

__all__ = ["packages"]
DRIVER = ROOT / "tests" / "node" / "mishaps.mjs"
WITHIN_S = 300
TOKEN = "the-token-of-the-operator"
PROPERTIES = {
    "constructor": {"type": "string"},
    "switch": {"type": "boolean", "default": "\u202eno"},
    "number": {"type": "number"},
}
JOINED = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469"
ODD: dict[str, Any] = {
    "name": "constructor",
    "description": f"The constructor of a car; {JOINED}; "
    "hidden: a\u200cb\u061c\u00ad\u2028\U000e0141",
    "inputSchema": {"type": "object", "properties": PROPERTIES},
}
TOOLS = [*({"name": f"tool_{n}", "description": f"Do {n}"} for n in range(400)), ODD]

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]


def command(packages: Path, base: str, token: str, scenario: str) -> list[str]:
    given = json.dumps({"base": base, "token": token, "scenario": scenario})
    return ["node", str(DRIVER), str(packages), given]


def facts(output: bytes) -> dict[str, Any]:
    report = json.loads(output)
    assert report.get("failed") is None, report["failed"]
    assert report["errors"] == []
    return report["facts"]


@asynccontextmanager
async def driven(
    packages: Path, home: Path, scenario: str, users: int = 0
) -> AsyncGenerator[dict[str, Any]]:
    async with running_service(
        f"sqlite:///{home / 'armory.db'}",
        catalog_of({"odd": TOOLS}),
        embedder=HashingEmbedder(),
        allow_anonymous=True,
    ) as service:
        for number in range(users):
            await service.accounts.users.create(f"user-{number:04}")
            await service.accounts.keys.create(f"key-{number:04}")
            name = f"pack-{number:04}"
            await service.accounts.packs.create(Pack(name, None, name, "", (), ()))
        asked = command(packages, service.url, ADMIN_TOKEN, scenario)
        driver = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
        async with asyncio.timeout(WITHIN_S):
            output, _ = await driver.communicate()
    yield facts(output)


@pytest.mark.anyio
async def test_credentials_that_are_none_and_logging_out(tmp_path: Path, packages: Path) -> None:
    async with driven(packages, tmp_path, "credentials") as found:
        assert found["broken"] == "the credential is not valid here"
        assert found["address"].endswith("/console/#/overview")
        assert "root · administrator" in found["late"]
        assert found["kept"] == []
        assert "characters that none can have" in found["unsendable"]


@pytest.mark.anyio
async def test_words_that_javascript_has_a_use_for(tmp_path: Path, packages: Path) -> None:
    async with driven(packages, tmp_path, "words") as found:
        assert found["said"].endswith(r"hidden: a\u{200c}b\u{61c}\u{ad}\u{2028}\u{e0141}")
        assert f"car; {JOINED}; " in found["said"]
        assert json.loads(found["copied"])["name"] == "odd__constructor"
        assert found["typed"] == ""
        assert found["preset"] == r"default \u{202e}no"
        assert found["labelled"] == "constructor"
        assert "number is no number" in found["word"]
        sent = [json.loads(one) for one in found["sent"]]
        assert [one["arguments"]["number"] for one in sent] == [12345678901234567890, 2.5]
        assert sent[1] == {"arguments": {"number": 2.5}}
        assert found["focus"] == "Call"
        assert json.loads(found["json"]) == {"more": 1}


@pytest.mark.anyio
async def test_more_users_keys_and_packs_than_fit_a_page(tmp_path: Path, packages: Path) -> None:
    async with driven(packages, tmp_path, "people", users=501) as found:
        assert found["asked"] == "Keep"
        assert found["kept"].startswith("Delete")
        assert found["escaped"].startswith("Delete")
        assert found["oldest"] == 1


@pytest.mark.anyio
async def test_a_page_that_is_opened_in_the_background(tmp_path: Path, packages: Path) -> None:
    async with driven(packages, tmp_path, "background"):
        pass


@pytest.mark.anyio
async def test_answers_that_are_not_the_gateways(tmp_path: Path, packages: Path) -> None:
    async with driven(packages, tmp_path, "answers") as found:
        assert "What answered is not the gateway" in found["proxy"]
        assert found["problem"] == r"it said: \u{202e}\u{1b}[31mno"
        assert '"id": 1234567890123456789' in found["result"]


@pytest.mark.anyio
async def test_entries_of_several_replicas_stand_beside_each_other(
    tmp_path: Path, packages: Path
) -> None:
    async with driven(packages, tmp_path, "replicas") as found:
        assert found["rows"] == ["up__two", "up__one"]  # once each, the latest first
        assert found["contents"] == ["one", "two"]


@pytest.mark.anyio
async def test_packs_that_tools_are_chosen_by_are_all_there(tmp_path: Path, packages: Path) -> None:
    async with driven(packages, tmp_path, "packs") as found:
        assert found["packs"] == ["The pack one", "The pack two"]


@pytest.mark.anyio
async def test_states_at_several_replicas_are_told_where_they_differ(
    tmp_path: Path, packages: Path
) -> None:
    async with driven(packages, tmp_path, "states") as found:
        assert found["same"] == 0


def driven_at(packages: Path, base: str, token: str, scenario: str) -> dict[str, Any]:
    asked = command(packages, base, token, scenario)
    return facts(subprocess.run(asked, capture_output=True, timeout=WITHIN_S, check=False).stdout)


def test_clients_of_a_gateway_without_logins_need_no_token(
    serve: Any, armory: Any, packages: Path
) -> None:
    gateway = serve({"server": {"base_path": "/console/below"}}).ready()
    (link,) = json.loads(armory("console", "--json").stdout)["links"]
    found = driven_at(packages, gateway.base, re.split("#token=", link)[1], "connect")
    assert f"claude mcp add --transport http armory {gateway.base}/mcp\n" in found["snippets"]
    assert "ARMORY_TOKEN" not in found["snippets"]


def test_a_gateway_without_upstreams_says_how_there_are_some(serve: Any, packages: Path) -> None:
    found = driven_at(packages, serve({}).ready().base, "", "none")
    assert "None is configured yet" in found["overview"]
    assert "There is none yet" in found["tools"]


def test_an_administrator_without_a_pack_is_told_so(
    serve: Any, demo_upstreams: dict[str, Any], packages: Path
) -> None:
    root = {"token": TOKEN, "user": "root", "scopes": ["admin"]}
    config = {
        "accounts": {"enabled": True},
        "security": {"tokens": {"root": root}},
        "upstreams": demo_upstreams,
    }
    found = driven_at(packages, serve(config).ready().base, TOKEN, "uninstalled")
    assert "none is among what you have installed" in found["tools"]


def test_what_was_typed_is_not_lost(serve: Any, tmp_path: Path, packages: Path) -> None:
    config = {
        "server": {"config_editing": True},
        "security": {"tokens": {"root": {"token": TOKEN, "scopes": ["admin"]}}},
    }
    found = driven_at(packages, serve(config).ready().base, TOKEN, "drafts")
    assert (found["unchecked"], found["undone"]) == ("Checking…", "As it is in the file.")
    assert found["reloaded"] is True
    assert (found["other"], found["behind"], found["review"]) == (200, True, True)
    assert found["standing"] == "Not checked."
    assert "# another's" in found["anew"]
    assert "# mine" not in found["anew"]
    assert found["offered"] == 0
