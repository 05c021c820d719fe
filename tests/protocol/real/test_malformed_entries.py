"""The TypeScript client refuses a list for one entry: none that it gets has one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.protocol.test_malformed_entries import PROMPTS, RESOURCES, TEMPLATES, TOOLS, list_oddly

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(180)]
BOUND_S = 90
SCRIPT = Path(__file__).with_name("client.mjs")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_typescript_client_lists_all(
    front: Front, node: str, node_dir: Path, mode: str
) -> None:
    list_oddly(front)
    process = await asyncio.create_subprocess_exec(
        node, str(SCRIPT), str(node_dir), f"{front.url}/mcp", mode, "[]",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(BOUND_S):
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3_000:]
    told = json.loads(out)
    assert told["tools"][3:] == [f"old__{tool['name']}" for tool in TOOLS]
    assert len(told["prompts"]) == 1 + len(PROMPTS)
    assert len(told["resources"]) == 1 + len(RESOURCES)
    assert len(told["templates"]) == 1 + len(TEMPLATES)
