"""Which endpoint `--url` means."""

from __future__ import annotations

import pytest

from armory.cli.remote import endpoint_url
from armory.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/mcp?mode=full"),
        ("https://a.example/", "https://a.example/mcp?mode=full"),
        ("http://a/mcp/set/x?query=y", "http://a/mcp/set/x?query=y&mode=full"),
        ("http://a/mcp?mode=compact", "http://a/mcp?mode=compact"),
        ("http://a/mcp?x=1&mode=bogus", "http://a/mcp?x=1&mode=bogus"),
    ],
)
def test_a_mode_of_the_url_stays(given: str, meant: str) -> None:
    assert endpoint_url(given, "full") == meant


@pytest.mark.parametrize("given", ["ftp://a", "http://", "file:///a"])
def test_what_is_no_gateway(given: str) -> None:
    with pytest.raises(ConfigError, match="is no URL of a gateway"):
        endpoint_url(given)
