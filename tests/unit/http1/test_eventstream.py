from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.http1.eventstream import Event, EventParser, EventTooLarge


def parse(*chunks: bytes, limit: int = 1_000) -> list[Event]:
    parser = EventParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_an_event_has_its_name_id_and_lines_and_no_comments() -> None:
    stream = b": comment\nevent: endpoint\nid: 7\ndata: a\ndata:  b\n\ndata:c\n\n"
    assert parse(stream) == [Event(b"a\n b", "endpoint", "7"), Event(b"c", "message", "7")]


def test_an_event_without_data_is_none_but_moves_the_id() -> None:
    parser = EventParser(100)
    assert parser.feed(b"id: 3\nretry: 250\nevent: x\n\n") == []
    assert (parser.last_id, parser.retry_ms) == ("3", 250)
    assert parser.feed(b"data: y\n\n") == [Event(b"y", "message", "3")]


def test_an_empty_data_line_is_an_event() -> None:
    assert parse(b"id: 1\ndata: \n\n") == [Event(b"", "message", "1")]


@pytest.mark.parametrize("cut", [0, 3, 4_000])
def test_long_data_without_a_space_is_data_and_nothing_else(cut: int) -> None:
    stream = b"data:" + b"x" * 5_000 + b"\n\n"
    (event,) = parse(stream[:cut], stream[cut:], limit=10_000)
    assert (event.data, event.skipped_bytes) == (b"x" * 5_000, 0)


def test_byte_order_mark_odd_ids_and_retries() -> None:
    parser = EventParser(100)
    assert parser.feed(b"\xef\xbb\xbfdata: a\nid: x\0y\nretry: soon\n\n") == [Event(b"a")]
    assert (parser.last_id, parser.retry_ms) == (None, None)


def test_an_empty_id_takes_back_the_one_before() -> None:
    parser = EventParser(1_000)
    parser.feed(b"id: 3\ndata: a\n\n")
    (event,) = parser.feed(b"id:\ndata: b\n\n")
    assert (event.id, parser.last_id) == (None, None)


def test_the_id_of_an_event_counts_once_that_is_complete() -> None:
    """A stream that breaks off in an event is resumed before it: nobody has that event yet."""
    parser = EventParser(1_000)
    parser.feed(b"id: 3\ndata: a\n\nid: 4\ndata: half of ")
    assert parser.last_id == "3"
    resumed = parser.continued()
    (event,) = resumed.feed(b"data: c\n\n")
    assert (event.id, resumed.last_id) == ("3", "3")
    parser.feed(b"it\n\n")
    assert parser.last_id == "4"


def test_an_unfinished_event_is_not_reported() -> None:
    assert parse(b"data: a\n") == []


@pytest.mark.parametrize("stream", [b"data: %s\n\n" % (b"x" * 20), b"data: 12345\n" * 3, b"x" * 20])
def test_an_event_beyond_the_limit_is_refused(stream: bytes) -> None:
    with pytest.raises(EventTooLarge, match="10 bytes"):
        parse(stream, limit=10)


LINES = st.lists(
    st.sampled_from([b"data: a", b"data:bb", b"event: e", b"id: 1", b": c", b"", b"data: \xff"]),
    max_size=12,
)


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 80)))
def test_however_it_is_cut_and_ended_it_reads_the_same(
    lines: list[bytes], ending: bytes, cuts: list[int]
) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    stream = b"".join(line + ending for line in lines)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(places)]
    assert parse(*chunks) == parse(whole)
