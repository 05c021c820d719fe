"""An identity provider on a real port, for each test that takes one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from armory.testing.identity import IdentityProvider


@pytest.fixture
async def provider() -> AsyncGenerator[IdentityProvider]:
    async with IdentityProvider() as found:
        yield found
