"""`armory call` shows whatever a server answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from armory.cli.main import cli
from armory.testing.upstreams.http import ScriptedUpstream

pytestmark = pytest.mark.anyio


async def test_an_answer_that_is_structured_alone_is_shown(tmp_path: Path) -> None:
    async def structured(_script: Any, _request: Any) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"city": "Győr", "degrees": [1, 2]}}

    file = tmp_path / "armory.yaml"
    async with ScriptedUpstream() as upstream:
        upstream.script.behaviour["who"] = structured
        config = {"upstreams": {"web": {"url": upstream.url}}, "tool_rag": {"enabled": False}}
        file.write_text(yaml.safe_dump(config))
        found = await asyncio.to_thread(  # a command has an event loop of its own
            CliRunner().invoke,
            cli,
            ["call", "web__who", "--config", str(file)],
            env={"ARMORY_HOME": str(tmp_path / "home")},
        )
    assert found.exit_code == 0
    assert "Győr" in found.stdout
    assert json.loads(found.stdout) == {"city": "Győr", "degrees": [1, 2]}
