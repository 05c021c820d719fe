"""What the gateway's connections rely on of aiohttp's, and which of its versions are known."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp.web_protocol import RequestHandler
from structlog.testing import capture_logs

from armory.errors import ConfigError
from armory.web.connections import connection, exchanges, receiving

pytestmark = pytest.mark.anyio


def test_what_is_relied_on_of_a_connection_is_known_by_name() -> None:
    used: set[str] = set()
    for module in (connection, exchanges, receiving):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {n for n in used if re.match(r"_[a-z]", n) and hasattr(RequestHandler, n)} == {
        *exchanges.INTERNALS
    }


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("3.14.3", False),
        ("3.14.4", True),
        ("3.14.12", True),
        ("3.15.0a1", False),
        ("4.14.4", False),
    ],
)
def test_which_libraries_are_known(version: str, known: bool) -> None:
    assert exchanges.is_known(version) is known


def test_a_library_whose_connections_cannot_be_served_is_an_error_at_start() -> None:
    """As those of aiohttp 3.14.3, which took every request and answered none."""
    with pytest.raises(ConfigError, match=r"aiohttp 3\.14\.3 .*_buffer_paused.*aiohttp>=3\.14\.4"):
        exchanges.check_library(object(), "3.14.3")


def test_a_library_that_is_not_known_is_told() -> None:
    whole = SimpleNamespace(**dict.fromkeys(exchanges.INTERNALS))
    with capture_logs() as logs:
        exchanges.check_library(whole, "3.14.5")
        assert not logs
        exchanges.check_library(whole, "3.15.0")
    assert [(one["event"], one["version"]) for one in logs] == [("aiohttp_not_known", "3.15.0")]
