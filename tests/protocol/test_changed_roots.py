"""What a client says beside that its roots changed passes on to the upstreams that are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armory.protocol.meta import LOG_LEVEL, RELATED_TASK
from armory.protocol.methods import ROOTS_CHANGED
from armory.testing.clients.raw import LegacyClient
from armory.testing.upstreams.exchange import notification
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from tests.protocol.gateways import running

pytestmark = pytest.mark.anyio
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.mark.parametrize(("endpoint", "passed"), [("/mcp", {}), ("/mcp/up", {"dev.armory/x": 1})])
async def test_its_meta_passes_but_for_what_is_the_hops_own(
    tmp_path: Path, endpoint: str, passed: dict[str, Any]
) -> None:
    async with HttpUpstream(eras="legacy") as upstream:
        config = {"upstreams": {"up": {"url": upstream.url}}, "tool_rag": {"enabled": False}}
        async with running(tmp_path, config) as gateway:
            client = LegacyClient(f"{gateway.url}{endpoint}", gateway.http, "2025-11-25")
            await client.initialize({"roots": {"listChanged": True}})
            tool = "echo" if passed else "up__echo"
            await client.request("tools/call", {"name": tool, "arguments": {}})
            own = {LOG_LEVEL: "debug", RELATED_TASK: {"taskId": "another's"}, "dev.armory/x": 1}
            await client.send(notification(ROOTS_CHANGED, {"_meta": {**TRACE, **own}}))

            def told() -> list[Any]:
                return [m for m in upstream.script.received if m.get("method") == ROOTS_CHANGED]

            await until(lambda: bool(told()))
            assert told()[0]["params"] == {"_meta": {**TRACE, **passed}}
