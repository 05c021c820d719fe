"""Splits long objects and arrays, one member or item at a time.

Owns: `few_members`, `few_items_of`, and giving up where there are too many: a decoder would make
all of them before they could be counted; `named_members`, of however many. Never imports the
protocol or a transport.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from armory.protocol.scanning.nesting import item_ends
from armory.protocol.scanning.values import (
    NO_BRACKETS,
    PIECE_BYTES,
    SPACES,
    run_end,
    unmatched,
    value_end,
)

MOST_MEMBERS = 500
"""Most members of a long object: with more, decoding it would take tens of times its size. The
objects of the protocol have a dozen members; what clients and tools send each other is not
decoded."""
_SHORT_MEMBER = re.compile(
    rb'"([\x20\x21\x23-\x5b\x5d-\x7e]{0,100}+)"[ \t\r\n]{0,100}+:[ \t\r\n]{0,100}+'
    rb'("[\x20\x21\x23-\x5b\x5d-\x7e]{0,100}+"|-?(?:0|[1-9]\d{0,14}+)|true|false|null|\[\]|{})'
    rb"[ \t\r\n]{0,100}+(?=[,}])"
)
"""What most short members look like: to have a parser say where each of hundreds ends takes
milliseconds."""
_A_FEW, _STEP_BYTES = 100, 64 * 1024
"""Members or items of a long value that are taken apart in a step, and how much of it: 0.3 ms at
the worst."""
_GUESSES = 2
"""Commas behind which a piece of very many members may end that are tried before it is looked
which one is none of a text: that takes 0.8 ms."""
_TRUNCATED = "Input data was truncated"
_COMMA, _COLON, _OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END, _SPACE = b",:{}[] "

_ABSENT = Raw(b"")
_members = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)


class TooWide(msgspec.DecodeError):
    """It has more members, items or values than are decoded."""


def few_members(view: memoryview) -> Generator[None, None, dict[str, Raw]]:
    """The members of a JSON object, each verbatim, in steps.

    Raises:
        msgspec.DecodeError: not an object (or not JSON); `TooWide`: it has more than
            `MOST_MEMBERS`.
    """
    found: dict[str, Raw] = {}
    at = yield from _past_spaces(view, 0)
    if view[at] != _OBJECT:
        return _members.decode(view)  # which says what it is instead
    at = yield from _past_spaces(view, at + 1)
    if view[at] == _OBJECT_END:
        return _members.decode(view)
    enough = at + _STEP_BYTES
    for number in range(MOST_MEMBERS):
        if number % _A_FEW == _A_FEW - 1 or at >= enough:
            enough = at + _STEP_BYTES
            yield
        short = _SHORT_MEMBER.match(view, at)
        if short is not None:
            end = short.end()
            found[short[1].decode()] = Raw(short[2])
        else:
            name, value, end = yield from _member(view, at)
            found[name] = value
        if view[end] != _COMMA:
            yield from _ended(view, end, _OBJECT_END)
            return found
        at = _past_some_space(view, end + 1)
    raise TooWide(f"an object has more than {MOST_MEMBERS:,} members")


def named_members(view: memoryview, names: Sequence[str]) -> Generator[None, None, dict[str, Raw]]:
    """The members of these names (without quotes and backslashes) of a JSON object, however many
    others it has: those are skipped, a piece of them in a step.

    Raises:
        msgspec.DecodeError: not an object (or not JSON).
    """
    fields = {f"f{number}": name for number, name in enumerate(names)}
    kind = msgspec.defstruct("Some", [(f, Raw, _ABSENT) for f in fields], rename=fields)
    skipping = msgspec.json.Decoder(kind)
    found: dict[str, Raw] = {}
    at = yield from _past_spaces(view, 0)
    if view[at] != _OBJECT:
        return _members.decode(view)
    at = yield from _past_spaces(view, at + 1)
    if view[at] == _OBJECT_END:
        return _members.decode(view)
    while True:
        yield
        if (some := _some_members(view, at, skipping)) is not None:
            piece, end = some
            for field, name in fields.items():
                if (value := getattr(piece, field)) is not _ABSENT:
                    found[name] = value
        else:
            name, value, end = yield from _member(view, at)
            if name in names:
                found[name] = value
        if view[end] != _COMMA:
            yield from _ended(view, end, _OBJECT_END)
            return found
        at = _past_some_space(view, end + 1)


def _some_members(
    view: memoryview, at: int, skipping: msgspec.json.Decoder[Any]
) -> tuple[Any, int] | None:
    """What is wanted of the members that end within a piece, and the comma behind them; None where
    none ends there.

    Raises:
        msgspec.DecodeError: it is not JSON.
    """
    piece = bytes(view[at : at + PIECE_BYTES])
    cut = len(piece)
    for _ in range(_GUESSES):
        cut = piece.rfind(b",", 0, cut)
        if cut <= 0:
            return None
        if unmatched(piece[:cut].translate(None, NO_BRACKETS)) or not piece[:cut].strip():
            continue
        try:  # whole members where a parser says so: the text begins with one, and none is cut
            return skipping.decode(b"{%b}" % piece[:cut]), at + cut
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
    comma = next(item_ends(view, at, PIECE_BYTES))
    if comma is None or not (some := bytes(view[at:comma])).strip():
        return None
    return skipping.decode(b"{%b}" % some), comma


def _member(view: memoryview, at: int) -> Generator[None, None, tuple[str, Raw, int]]:
    """The member at `at`, and where the next byte behind it that is no space stands."""
    colon = yield from value_end(view, at)
    name = _text.decode(view[at:colon])
    if view[colon] != _COLON:
        raise msgspec.DecodeError("JSON is malformed: expected ':'")
    at = _past_some_space(view, colon + 1)
    end = yield from value_end(view, at)
    return name, _verbatim(view, at, end), end


def few_items_of(view: memoryview, most: int) -> Generator[None, None, list[Raw]]:
    """The items of a JSON array up to the first beyond `most`, each verbatim, in steps.

    Raises:
        msgspec.DecodeError: not an array (or not JSON).
    """
    at = yield from _past_spaces(view, 0)
    if view[at] != _ARRAY:
        return _items.decode(view)
    at = yield from _past_spaces(view, at + 1)
    if view[at] == _ARRAY_END:
        return _items.decode(view)
    found: list[Raw] = []
    enough = at + _STEP_BYTES
    while len(found) <= most:
        end = yield from value_end(view, at)
        found.append(_verbatim(view, at, end))
        if view[end] != _COMMA:
            yield from _ended(view, end, _ARRAY_END)
            break
        at = _past_some_space(view, end + 1)
        if len(found) % _A_FEW == 0 or at >= enough:
            enough = at + _STEP_BYTES
            yield
    return found


def _verbatim(view: memoryview, at: int, end: int) -> Raw:
    if view[at] > _SPACE and view[end - 1] > _SPACE:
        return Raw(view[at:end])
    return Raw(bytes(view[at:end]).strip())


def _ended(view: memoryview, at: int, closing: int) -> Generator[None, None, None]:
    """Check that nothing follows `at`.

    Raises:
        msgspec.DecodeError: something follows.
    """
    if view[at] != closing or (yield from run_end(SPACES, view, at + 1)) != len(view):
        raise msgspec.DecodeError("JSON is malformed: expected ',' or the end")


def _past_spaces(view: memoryview, at: int) -> Generator[None, None, int]:
    end = yield from run_end(SPACES, view, at)
    if end == len(view):
        raise msgspec.DecodeError(_TRUNCATED)
    return end


def _past_some_space(view: memoryview, at: int) -> int:
    """Past all that is less than a piece; more of it belongs to the value behind."""
    spaces = SPACES.match(view, at, at + PIECE_BYTES)
    if spaces is None or spaces.end() == len(view):
        raise msgspec.DecodeError(_TRUNCATED)
    return spaces.end()
