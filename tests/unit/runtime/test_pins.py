"""Definitions are pinned for each project by itself."""

from __future__ import annotations

from pathlib import Path

from armory.config import Loaded, load_file
from armory.domain.catalog import Catalog, ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.runtime.blocks.pins import pinning_of


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
