"""One retrieval over REST: answers that are kept, and the numbers that come with them."""

from __future__ import annotations

from typing import Any

import pytest

from armory.testing.service import ADMIN_TOKEN as ADMIN

pytestmark = pytest.mark.anyio
SERVICE = "the-service-token"


async def test_a_kept_answer_ends_with_the_category_that_it_was_found_by(client: Any) -> None:
    tools = [{"name": "brew", "description": "Brew a cup of coffee"}]

    async def index(category: str) -> None:
        body = {"tools": tools, "server": "kitchen", "category": category}
        await client("POST", "/v2/index_tools", token=ADMIN, json=body)

    async def found(category: str) -> Any:
        params = {"query": "brew coffee", "category": category}
        return await client.names("/v1/retrieve_tools", token=SERVICE, **params)

    await index("drinks")
    assert await found("drinks") == ["kitchen__brew"]
    assert await found("food") == []
    await index("food")
    assert await found("drinks") == []
    assert await found("food") == ["kitchen__brew"]
