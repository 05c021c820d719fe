"""What a request takes from its `_meta`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.gateway.endpoint import ALL
from armory.testing.front import raws
from armory.wire.caller import Caller
from armory.wire.requests import modern_request, session_request
from armory.wire.sessions.session import Session


@pytest.mark.parametrize(
    ("token", "taken"),
    [
        ("", True),
        ("1.5", True),
        (0, True),
        (-7, True),
        (10**30, True),
        (None, False),
        (1.5, False),
        (True, False),
        ({"a": 1}, False),
        ([1], False),
    ],
)
def test_a_progress_token_is_a_string_or_an_integer(token: Any, taken: bool) -> None:
    meta = raws({"progressToken": token})
    session = Session("s", ANONYMOUS, ALL, "2025-11-25", {})
    caller = Caller(principal=ANONYMOUS, endpoint=ALL)
    requests = (
        modern_request(caller, "2026-07-28", meta, _nowhere),
        session_request(caller, session, session.general, meta),
    )
    for request in requests:
        assert request.client.progress_token == (meta["progressToken"] if taken else None)


def test_without_a_token_there_is_none() -> None:
    caller = Caller(principal=ANONYMOUS, endpoint=ALL)
    meta: dict[str, Raw] = {}
    assert modern_request(caller, "2026-07-28", meta, _nowhere).client.progress_token is None


async def _nowhere(_data: bytes) -> None:
    pass
