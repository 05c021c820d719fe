"""What tests of upstreams share."""

from __future__ import annotations

import pytest

from armory.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """Stands still until it is moved."""
    return FakeClock()
