"""How long servers were up, as statistics and the ranking have it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime import open_runtime
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


async def test_what_a_server_takes_to_start_is_no_time_in_which_it_was_down(
    tmp_path: Path,
) -> None:
    async with HttpUpstream() as upstream:
        blocks = {
            "upstreams": {
                "up": {"url": upstream.url},
                "starting": {"command": "sleep", "args": ["60"]},
                "down": {"url": "http://127.0.0.1:1/mcp"},
            },
            "tool_rag": {"enabled": False},
        }
        loaded = load_text(json.dumps(blocks), environ={"ARMORY_HOME": str(tmp_path)})
        async with asyncio.timeout(60), open_runtime(loaded) as runtime:
            states = {"up": "ready", "starting": "connecting", "down": "down"}

            def as_expected() -> bool:
                status = runtime.supervisor.status()
                return {key: found.state for key, found in status.items()} == states

            await until(as_expected)
            observed = runtime._upstreams_up()  # pyright: ignore[reportPrivateUsage]
            assert observed == {"up": True, "down": False}
