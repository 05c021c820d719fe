"""The folder of Armory's data is removed or replaced under a gateway that runs."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import aiohttp
import pytest

from armory.config import load_text
from armory.runtime import open_runtime
from armory.runtime.entry.home_watch import HomeWatch
from armory.runtime.entry.local_access import FOLDER, running

pytestmark = pytest.mark.anyio
ADMIN = {"Authorization": "Bearer the-token-of-an-administrator"}


async def test_a_folder_that_goes_and_a_file_that_is_another_are_noticed(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "home" / "armory.db"
    watch = HomeWatch(home, file)

    async def found() -> str:
        await watch.look()
        return watch.problem

    assert await found() == ""  # it can do without from the start
    home.mkdir()
    assert await found() == ""  # a database that is still to be made
    file.write_text("the one in use")
    assert await found() == ""
    kept = file.rename(home / "kept.db")
    assert "armory.db is gone; what is written now is lost" in await found()
    file.write_text("restored")
    assert "armory.db is another file than the one in use" in await found()
    kept.replace(file)
    assert await found() == ""
    home.rename(tmp_path / "elsewhere")
    assert await found() == f"{home} is gone; what Armory keeps there is lost, start it again"
    home.symlink_to("x" * 300)  # which cannot even be looked at
    assert await found() == f"{home} is gone; what Armory keeps there is lost, start it again"


async def test_a_note_that_was_removed_comes_back_and_a_removed_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("ARMORY_HOME", str(home))
    token = {"token": ADMIN["Authorization"].removeprefix("Bearer "), "scopes": ["admin"]}
    config = {"security": {"tokens": {"boss": token}}, "tool_rag": {"enabled": False}}
    async with (
        open_runtime(load_text(json.dumps(config)), address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession(headers=ADMIN) as session,
        asyncio.timeout(60),
    ):
        await runtime.ready()
        assert runtime.listening is not None

        async def told() -> list[str]:
            assert runtime.listening is not None
            async with session.get(f"{runtime.listening.url}/readyz") as answer:
                found = (await answer.json())["not_ready"]
            return [line for line in found if line.startswith("data folder: ")]

        assert await told() == []
        shutil.rmtree(home / FOLDER)
        await runtime.home.look()  # as it does every few seconds
        (note,) = running(home)
        assert note.url == runtime.listening.url
        assert await told() == []
        shutil.rmtree(home)
        await runtime.home.look()
        assert not home.exists()  # nor is it made again for the note
        (line,) = await told()
        assert f"{home} is gone" in line
