"""What tests of upstreams share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from armory.testing.clock import FakeClock
from armory.testing.upstreams.http import ScriptedUpstream


@pytest.fixture
def clock() -> FakeClock:
    """Stands still until it is moved."""
    return FakeClock()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedUpstream]:
    """An MCP server over HTTP that shakes hands and keeps sessions."""
    async with ScriptedUpstream(eras="legacy") as server:
        yield server
