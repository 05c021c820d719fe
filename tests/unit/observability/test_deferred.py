"""The log that is set up with the first event: what counts as one, and who may bring it."""

from __future__ import annotations

import json
import logging

import pytest
from structlog.testing import capture_logs

from armory.logger import Logger
from armory.observability.deferred import log_later
from armory.observability.settings import LogSettings

_log = Logger(__name__)


def test_the_first_event_is_logged_as_all_are(capsys: pytest.CaptureFixture[str]) -> None:
    log_later(LogSettings("info", "json"))
    _log.debug("unseen")
    _log.info("first", api_key="sk-very-secret")
    _log.warning("second")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["first", "second"]
    assert "very-secret" not in json.dumps(lines)


def test_the_first_record_of_a_library_is_logged_as_all_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_later(LogSettings("error", "json"))
    for _ in range(2):
        logging.getLogger("somebody").warning("sent Bearer very-secret-token")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["sent Bearer ***"] * 2


def test_what_is_less_than_wanted_sets_nothing_up(capsys: pytest.CaptureFixture[str]) -> None:
    log_later(LogSettings("error", "json"))
    before = logging.getLogger().handlers[:]
    _log.warning("unseen")
    assert logging.getLogger().handlers == before
    try:
        raise ValueError("broken")
    except ValueError:
        _log.exception("seen")
    (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert line["event"] == "seen"
    assert "ValueError: broken" in line["exception"]


def test_a_library_leaves_standard_output_to_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _log.info("done")
    assert capsys.readouterr() == ("", "")
    _log.warning("broken", path="x")
    written = capsys.readouterr()
    assert written.out == ""
    assert "broken" in written.err


def test_a_program_that_sets_structlog_up_gets_every_event() -> None:
    with capture_logs() as logs:
        _log.info("done", tools=1)
    assert logs == [{"event": "done", "log_level": "info", "tools": 1}]
