"""Which upstreams are the gateway itself, however that is written, and which only look alike."""

from __future__ import annotations

import json

import pytest

from armory.config import load_text
from armory.config.checks.itself import own_upstreams

DOCS = {"url": "http://10.0.0.2/mcp"}
SETS = {
    "all": {"tools": ["*"]},
    "whole": {"servers": ["me"]},
    "mine": {"tools": ["me__read_*"]},
    "others": {"servers": ["docs"], "tools": ["memory__*", "docs__[rw]*"]},
}


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://127.0.0.1:8080/mcp", True),
        ("http://LOCALHOST:8080/mcp/", True),
        ("http://[::1]:8080/sse", True),
        ("http://0.0.0.0:8080/mcp", True),
        ("http://[::]:8080/mcp", True),
        ("http://127.0.0.1:8080/%6Dcp?query=x", True),
        ("http://127.0.0.1:8080/mcp/me", True),
        ("http://127.0.0.1:8080/mcp/set/all", True),
        ("http://127.0.0.1:8080/mcp/set/whole/", True),
        ("http://127.0.0.1:8080/mcp/set/mine", True),
        ("http://127.0.0.1:8080/mcp/set/others", False),
        ("http://127.0.0.1:8080/mcp/docs", False),
        ("http://127.0.0.1:8081/mcp", False),
        ("http://10.0.0.1:8080/mcp", False),
        ("https://127.0.0.1/mcp", False),
    ],
)
def test_an_upstream_is_told_to_be_the_gateway(url: str, own: bool) -> None:
    config = {"upstreams": {"me": {"url": url}, "docs": DOCS}, "sets": SETS}
    found = list(own_upstreams(load_text(json.dumps(config), environ={}).config))
    assert found == ([(("upstreams", "me", "url"), url)] if own else [])


def test_who_serves_below_a_path_has_its_endpoints_there() -> None:
    for path, own in (("/tools/mcp/set/all", True), ("/mcp/set/all", False)):
        url = f"http://127.0.0.1:8080{path}"
        server = {"base_path": "/tools"}
        upstreams = {"me": {"url": url}, "docs": DOCS}
        config = {"server": server, "upstreams": upstreams, "sets": SETS}
        found = list(own_upstreams(load_text(json.dumps(config), environ={}).config))
        assert bool(found) == own
