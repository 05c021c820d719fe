"""What `armory status` says of whose an upstream's sessions are."""

from __future__ import annotations

from typing import Any

import pytest

from armory.cli.gateway.running import Gateway
from armory.cli.gateway.status import session_words, show

NONE = {"sessions": 1, "max_sessions": 100, "own_sessions": 0, "shared_sessions": 0}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "1 of 100 sessions: the gateway's own"),
        (
            {"sessions": 5, "shared_sessions": 3, "principals": 2, "own_sessions": 1},
            "5 of 100 sessions: the gateway's own, 3 shared by clients of 2 principals, "
            "1 client with its own",
        ),
        (
            {"sessions": 3, "shared_sessions": 1, "principals": 0, "own_sessions": 1},
            "3 of 100 sessions: the gateway's own, 1 shared by all principals, "
            "1 client with its own",
        ),
        (
            {"sessions": 2, "own_sessions": 2},
            "2 of 100 sessions: 2 clients with their own",
        ),
        ({"sessions": 4, "stateless": True}, "keeps nothing between requests: nothing to share"),
        ({"sessions": 0}, ""),
        ({"state": "ready"}, "1 of 100 sessions: the gateway's own"),
        ({"state": "down"}, ""),
        ({"state": "connecting"}, ""),
    ],
)
def test_it_is_said_who_shares_and_who_has_a_session_of_its_own(
    more: dict[str, Any], said: str
) -> None:
    assert session_words({**NONE, "principals": 0, "stateless": False, **more}) == said


def test_a_gateway_that_does_not_tell_is_shown_all_the_same() -> None:
    assert session_words({"state": "ready", "tools": 2}) == ""
    assert session_words({"sessions": 2}) == ""


def test_one_tool_is_one_tool(capsys: pytest.CaptureFixture[str]) -> None:
    upstream = {"state": "ready", "tools": 1, "sessions": 0}
    body = {"status": "ready", "upstreams": {"one": upstream}, "tools": 1}
    show(Gateway("http://127.0.0.1:1", None), body)
    assert "ready, 1 of 1 upstream, 1 tool\n" in (shown := capsys.readouterr().out)
    assert shown.endswith("1 tool\n")
