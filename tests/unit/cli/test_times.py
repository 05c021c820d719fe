"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from armory.cli.accounts.opening import expiry_ms
from armory.cli.times import moment_of, shown_time, span_of
from armory.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("999999d", None),
        ("1y", None),
        ("-1d", None),
        ("", None),
    ],
)
def test_a_span_is_a_number_with_a_unit_and_at_most_a_century(
    text: str, span: timedelta | None
) -> None:
    assert span_of(text) == span


def test_a_moment_without_a_zone_is_in_utc() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment_of("2026-01-31T12:00") == moment_of("2026-01-31T13:00+01:00") == noon
    assert moment_of("2026-01-31") == noon.replace(hour=0)
    assert moment_of("soon") is moment_of("9999-12-31T23:59-05:00") is None


def test_a_key_cannot_outlive_the_calendar() -> None:
    with pytest.raises(InvalidRequest, match="expected a span such as 90d"):
        expiry_ms("999999w")


def test_a_time_that_no_date_has_is_shown_as_the_last_one() -> None:
    assert shown_time(None) == "never"
    assert shown_time(0) == "1970-01-01 00:00"
    assert shown_time(606_563_914_000_000) == "9999-12-31 23:59"
