"""When the configuration file counts as changed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from armory.cli.gateway import watching
from armory.cli.gateway.watching import ConfigWatch
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WATCH_S", 0.005)
    monkeypatch.setattr(watching, "WRITTEN_S", 0.02)


async def test_a_file_that_is_being_written_has_not_changed_yet(tmp_path: Path) -> None:
    path = tmp_path / "armory.yaml"
    path.write_text("upstreams: {a: {command: x}}\n")
    watched = ConfigWatch(path)
    path.write_text("")  # as the shell does before the command writes
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await watched.changed()
    path.write_text("upstreams: {b: {command: x}}\n")
    async with asyncio.timeout(10):
        await watched.changed()


async def test_a_change_between_the_first_reading_and_the_first_look_counts(tmp_path: Path) -> None:
    path = tmp_path / "armory.yaml"
    path.write_text("upstreams: {a: {command: x}}\n")
    watched = ConfigWatch(path)
    path.write_text("upstreams: {a: {command: x}, b: {command: y}}\n")
    async with asyncio.timeout(10):
        await watched.changed()


async def test_what_was_put_in_force_meanwhile_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "armory.yaml"
    path.write_text("upstreams: {a: {command: x}}\n")
    watched = ConfigWatch(path)
    path.write_text("upstreams: {b: {command: x}}\n# written\n")
    watched.reading()
    watched.in_force()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await watched.changed()
    watched.reading()
    path.write_text("upstreams: {c: {command: x}}\n")  # while that was being read
    watched.in_force()
    async with asyncio.timeout(10):
        await watched.changed()


async def test_the_variables_beside_it_count_as_well(tmp_path: Path) -> None:
    path, beside = tmp_path / "armory.yaml", tmp_path / ".env"
    path.write_text("upstreams: {a: {url: ${WHERE}}}\n")
    watched = ConfigWatch(path)
    for written in ("WHERE=http://a.example\n", "WHERE=http://another.example\n"):
        beside.write_text(written)
        async with asyncio.timeout(10):
            await watched.changed()
    beside.unlink()
    async with asyncio.timeout(10):
        await watched.changed()


async def test_another_file_in_its_place_counts_whatever_its_times_say(tmp_path: Path) -> None:
    one, other, path = (tmp_path / name for name in ("one", "other", "armory.yaml"))
    one.write_text("upstreams: {a: {command: x}}\n")
    other.write_text("upstreams: {b: {command: x}}\n")
    for file in (one, other):
        os.utime(file, ns=(1, 1))
    path.symlink_to(one)
    watched = ConfigWatch(path)
    (tmp_path / "next").symlink_to(other)
    (tmp_path / "next").replace(path)  # as the kubelet swaps the files of a ConfigMap
    async with asyncio.timeout(10):
        await watched.changed()


async def test_a_file_that_was_away_and_is_back_counts(tmp_path: Path) -> None:
    path = tmp_path / "armory.yaml"
    path.write_text("upstreams: {a: {command: x}}\n")
    watched = ConfigWatch(path)
    changed = asyncio.create_task(watched.changed())
    path.rename(tmp_path / "away")
    await until(lambda: watched._seen is None)  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "away").rename(path)  # what was refused for its absence holds again
    async with asyncio.timeout(10):
        await changed


@pytest.mark.parametrize("lost", ["gone", "empty"])
async def test_a_file_that_stays_away_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr(watching, "GONE_S", 0.05)
    path = tmp_path / "armory.yaml"
    path.write_text("upstreams: {a: {command: x}}\n")
    watched = ConfigWatch(path)
    if lost == "gone":
        path.unlink()
    else:
        path.write_text("")
    async with asyncio.timeout(10):
        await watched.changed()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await watched.changed()
    path.write_text("upstreams: {a: {command: x}}\n")
    async with asyncio.timeout(10):
        await watched.changed()
