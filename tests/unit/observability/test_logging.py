from __future__ import annotations

import io
import json
import logging
import re
from typing import Any, Literal

import pytest
import structlog

from armory.cli.gateway.announcing import Announcer
from armory.observability.logging import configure_logging
from armory.observability.redaction import hide, redacted
from armory.observability.settings import LogSettings


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    configure_logging(LogSettings("info", "json"), stream=stream)
    return stream


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


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_secret(log: io.StringIO, log_format: Any) -> None:
    configure_logging(LogSettings("info", log_format), stream=log)
    hide(["configured-value"])
    for logger in (structlog.get_logger(), logging.getLogger("somebody")):
        try:
            raise ValueError("refused: configured-value, Bearer very-secret-token")
        except ValueError:
            logger.exception("failed")
    text = log.getvalue()
    assert text.count("ValueError: refused: ***, Bearer ***") == 2
    assert "configured-value" not in text
    assert "very-secret" not in text


def test_plain_text_stays() -> None:
    text = "upstream 'a': http://host/mcp answered 500; token limits are fine"
    assert redacted(text) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    configure_logging(LogSettings("info", "auto"), stream=stream)
    return stream


def test_a_terminal_gets_one_coloured_line_an_event(terminal: io.StringIO) -> None:
    try:
        raise ValueError("no\nsuch Bearer very-secret-token")
    except ValueError as error:
        structlog.get_logger().error("broke", lines=["a", "b\r\x1b[2Jc"], exc_info=error)
    structlog.get_logger().info("upstream_ready", tools=3, upstream="memory", about={"a": 1})
    logging.getLogger("somebody").warning("two\nlines")
    lines = terminal.getvalue().splitlines()
    assert len(lines) == 3
    assert all("\x1b[" in line and "\x1b[2J" not in line for line in lines)
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert re.match(r"\d\d:\d\d:\d\d error   broke ", plain[0])
    assert "such Bearer ***" in plain[0]
    assert plain[1].endswith('info    upstream_ready upstream=memory tools=3 about="{\\"a\\": 1}"')
    assert plain[2].endswith("warning two lines")


def test_no_colour_where_none_is_wanted_and_long_values_are_cut(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    configure_logging(LogSettings("info", "auto"), stream=terminal)
    structlog.get_logger().info("long", text="x" * 10_000)
    structlog.get_logger().warning(
        "upstream_down", error="it said: no key", stderr=["warn", "no key"]
    )
    line, down = terminal.getvalue().splitlines()
    assert "\x1b" not in line
    assert len(line) < 200
    assert down.endswith('warning upstream_down error="it said: no key"'), "the quote is enough"


def test_a_traceback_in_the_json_log_holds_no_secret(log: io.StringIO) -> None:
    try:
        raise ValueError("postgresql://me:very-secret@host/db")
    except ValueError as error:
        structlog.get_logger().error("broke", exc_info=error)
    (line,) = log.getvalue().splitlines()
    assert "***@host/db" in json.loads(line)["exception"]
    assert "very-secret" not in line


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_serve_says_is_json_where_the_log_is(
    form: Literal["json", "console"], capsys: pytest.CaptureFixture[str]
) -> None:
    announcer = Announcer(LogSettings("error", form))
    announcer.say("listening", "listening on http://127.0.0.1:1/mcp", url="http://127.0.0.1:1/mcp")
    announcer.note("upstreams_missing", "down: a", upstreams=["a"])
    announcer.error("reload_refused", "no\nway")
    said = capsys.readouterr().err
    if form == "console":
        assert said.startswith("armory: listening on http://127.0.0.1:1/mcp\n")
        assert "note: down: a\nerror: no\nway\n" in said
        return
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["event"] for event in events] == [
        "listening",
        "upstreams_missing",
        "reload_refused",
    ]
    assert events[0]["url"] == "http://127.0.0.1:1/mcp"
    assert events[0]["message"].startswith("armory: listening on")
