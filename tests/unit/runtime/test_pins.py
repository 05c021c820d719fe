"""Definitions are pinned for each project by itself, and stay so through a reload."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from armory.config import Loaded, load_file, load_text
from armory.domain.catalog import Catalog, ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.runtime import open_runtime
from armory.runtime.blocks.pins import pinning_of
from armory.testing.upstreams.http import HttpUpstream

EMPTY = '{"tools": {}}'


def project(folder: Path, home: Path) -> Loaded:
    folder.mkdir()
    file = folder / "armory.yaml"
    file.write_text("upstreams: {db: {command: serve-db}}\n")
    return load_file(file, {"ARMORY_HOME": str(home)})


def catalog(description: str) -> Catalog:
    return build_catalog({"db": ServerLists(tools=[{"name": "q", "description": description}])})[0]


def test_projects_that_name_a_server_alike_know_nothing_of_each_other(tmp_path: Path) -> None:
    one, two = (project(tmp_path / name, tmp_path / "home") for name in ("one", "two"))
    for loaded, description in ((one, "of one"), (two, "of two")):
        assert "db__q" in pinning_of(loaded, "block").admit(catalog(description)).tools
    assert "db__q" not in pinning_of(one, "block").admit(catalog("of two")).tools
    assert "db__q" in pinning_of(one, "block").admit(catalog("of one")).tools


def test_another_version_of_a_configmap_is_the_same_project(tmp_path: Path) -> None:
    mount = tmp_path / "etc"
    for version in ("..one", "..two"):
        (mount / version).mkdir(parents=True)
        (mount / version / "armory.yaml").write_text("upstreams: {db: {command: serve-db}}\n")
    (mount / "..data").symlink_to("..one")
    (mount / "armory.yaml").symlink_to("..data/armory.yaml")

    def read() -> Loaded:
        return load_file(mount / "armory.yaml", {"ARMORY_HOME": str(tmp_path / "home")})

    assert "db__q" in pinning_of(read(), "block").admit(catalog("before")).tools
    (mount / "..next").symlink_to("..two")
    (mount / "..next").replace(mount / "..data")
    assert "db__q" not in pinning_of(read(), "block").admit(catalog("after")).tools


def test_what_was_pinned_for_the_file_behind_a_link_is_used_on(tmp_path: Path) -> None:
    real = project(tmp_path / "real", tmp_path / "home")
    assert "db__q" in pinning_of(real, "block").admit(catalog("before")).tools
    link = tmp_path / "armory.yaml"
    link.symlink_to(tmp_path / "real" / "armory.yaml")
    linked = load_file(link, {"ARMORY_HOME": str(tmp_path / "home")})
    assert "db__q" not in pinning_of(linked, "block").admit(catalog("after")).tools


@pytest.mark.anyio
async def test_what_is_approved_while_the_configuration_is_read_again_stays_approved(
    tmp_path: Path,
) -> None:
    def loaded(*servers: str) -> Loaded:
        blocks = {
            "upstreams": {key: {"url": upstream.url} for key in servers},
            "security": {"pinning": "block"},
            "tool_rag": {"enabled": False},
        }
        home = {"ARMORY_HOME": str(tmp_path / "home")}
        return load_text(json.dumps(blocks), path=tmp_path / "armory.yaml", environ=home)

    def names() -> list[str]:
        return [name for name in runtime.gateway.view.catalog.tools if name.endswith("__echo")]

    async with (
        HttpUpstream() as upstream,
        open_runtime(loaded("up", "gone")) as runtime,
    ):
        await runtime.searchable()
        assert names() == ["up__echo", "gone__echo"]
        for definition in upstream.script.tools:
            if definition["name"] == "echo":
                definition["description"] = "now says something else"
        await runtime.relist("up")
        pinning = runtime.keeper.pinning
        assert pinning is not None
        reloading = asyncio.create_task(runtime.reload(loaded("up")))
        async with asyncio.timeout(20):
            while "gone" in runtime.pool.servers():  # noqa: ASYNC110 - each turn of the loop
                await asyncio.sleep(0)
        assert not reloading.done()
        pinning.take(pinning.withheld["up__echo"])
        await reloading
        await runtime.keeper.settle()
        assert names() == ["up__echo"]


@pytest.mark.anyio
async def test_pinned_definitions_are_read_beside_the_event_loop(tmp_path: Path) -> None:
    """Of a large catalog that takes a second; others are answered meanwhile."""
    loaded = load_text("{}", environ={"ARMORY_HOME": str(tmp_path)})
    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        path = loaded.place_in(tmp_path / "pins", ".json")
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)  # whoever reads it waits for who writes it
        answered = threading.Event()
        in_time: list[bool] = []

        def write() -> None:
            in_time.append(answered.wait(10))
            with path.open("w") as pipe:
                path.unlink()
                path.write_text(EMPTY)  # for whoever reads it after that
                pipe.write(EMPTY)

        writing = asyncio.create_task(asyncio.to_thread(write))
        reloading = asyncio.create_task(runtime.reload(loaded))
        await asyncio.sleep(0)  # it begins
        await asyncio.to_thread(answered.set)
        async with asyncio.timeout(30):
            await asyncio.gather(writing, reloading)
    assert in_time == [True]
