"""What tests of upstreams share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from armory.testing.clock import FakeClock
from armory.testing.upstreams.http import HttpUpstream


@pytest.fixture
def clock() -> FakeClock:
    """Stands still until it is moved."""
    return FakeClock()


@pytest.fixture
async def server() -> AsyncIterator[HttpUpstream]:
    """An MCP server over HTTP that shakes hands and keeps sessions."""
    async with HttpUpstream(eras="legacy") as server:
        yield server
