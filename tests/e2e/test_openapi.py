"""schemathesis over the API description: nothing answers 5xx, nothing answers undocumented."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from armory.accounts.settings import AccountSettings
from armory.security.authentication import StaticToken
from armory.testing.embedder import HashingEmbedder
from armory.testing.service import catalog_of, running_service

EXAMPLES = 20
TOKEN = "the-token-of-the-tester"
EVERY_HEALTH_CHECK: Any = list(HealthCheck)
CHECKS: Any = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    unsupported_method,
)
TOOLS = {
    "time": [{"name": "now", "description": "Tell the time"}],
    "mail": [{"name": "send", "description": "Send a mail", "inputSchema": {"type": "object"}}],
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service in a thread of its own: schemathesis blocks."""
    database: Path = tmp_path_factory.mktemp("openapi") / "armory.db"
    started, found = threading.Event(), [""]
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    async def serve() -> None:
        scopes = frozenset(("admin",))
        tokens = [StaticToken("tester", TOKEN, scopes, user="tester")]
        async with running_service(
            f"sqlite:///{database}",
            catalog_of(TOOLS),
            tokens=tokens,
            settings=AccountSettings(enabled=True),
            embedder=HashingEmbedder(),
        ) as service:
            found[0] = service.url
            started.set()
            await end.wait()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(30)
    yield found[0]
    loop.call_soon_threadsafe(end.set)
    thread.join(30)


@pytest.mark.timeout(900)
def test_every_answer_is_documented(url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    tested = 0
    operations: list[Any] = list(schema.get_all_operations())
    for found in operations:
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=EVERY_HEALTH_CHECK,
        )
        def check(case: Any) -> None:
            case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, checks=CHECKS)

        check()
        tested += 1
    assert tested >= 25
