from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator

import pytest
import structlog

from armory.observability.logging import configure_logging
from armory.observability.redaction import redacted
from armory.observability.settings import LogSettings


@pytest.fixture
def log() -> Generator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(LogSettings("info", "json"), stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_events_are_json_lines_and_levels_count(log: io.StringIO) -> None:
    structlog.get_logger().debug("unseen")
    structlog.get_logger().info("seen", server="a")
    (line,) = log.getvalue().splitlines()
    event = json.loads(line)
    assert (event["event"], event["server"], event["level"]) == ("seen", "a", "info")


def test_secrets_never_reach_the_log(log: io.StringIO) -> None:
    structlog.get_logger().info(
        "tried",
        api_key="sk-very-secret",
        access_token="tok-very-secret",
        header="Authorization: Bearer abc.very-secret",
        url="postgresql://me:very-secret@host/db",
        note="the key acx_very-secret was used",
    )
    text = log.getvalue()
    assert "very-secret" not in text
    assert "postgresql://***@host/db" in text


def test_the_standard_library_s_log_is_redacted_too(log: io.StringIO) -> None:
    logging.getLogger("somebody").warning("sent Bearer very-secret-token")
    assert "very-secret" not in log.getvalue()
    assert "Bearer ***" in log.getvalue()


def test_plain_text_stays() -> None:
    text = "upstream 'a': http://host/mcp answered 500; token limits are fine"
    assert redacted(text) == text
