"""When the configuration file counts as changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from armory.cli.gateway import serve
from armory.config import load_file

pytestmark = pytest.mark.anyio


async def test_a_file_that_is_being_written_has_not_changed_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "WATCH_S", 0.005)
    monkeypatch.setattr(serve, "WRITTEN_S", 0.02)
    path = tmp_path / "armory.yaml"
    path.write_text("upstreams: {a: {command: x}}\n")
    loaded, reload = load_file(path, environ={}), asyncio.Event()
    seen = serve._watch(loaded, reload)  # pyright: ignore[reportPrivateUsage]
    watching = asyncio.create_task(seen)
    try:
        path.write_text("")  # as the shell does before the command writes
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reload.wait()
        path.write_text("upstreams: {b: {command: x}}\n")
        async with asyncio.timeout(10):
            await reload.wait()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
